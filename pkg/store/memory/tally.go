package memory

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// Tally counts the requests to stores, and what the stores sent. Several stores may share one.
type Tally struct {
	Gets, Txns, Grants, Renews, Revokes, Watches atomic.Int64 // requests

	Writes   atomic.Int64 // puts and deletes of transactions that were applied
	Entries  atomic.Int64 // entries read
	Events   atomic.Int64 // events sent by watches
	Sent     atomic.Int64 // bytes of keys and values in transactions
	Received atomic.Int64 // bytes of keys and values read and sent
}

// Requests is the number of requests of all kinds.
func (t *Tally) Requests() int64 {
	return t.Gets.Load() + t.Txns.Load() + t.Grants.Load() + t.Renews.Load() + t.Revokes.Load() +
		t.Watches.Load()
}

// Count returns a store that counts the requests to s in t.
func Count(s store.Store, t *Tally) store.Store { return counted{s, t} }

type counted struct {
	store.Store
	t *Tally
}

func (c counted) Get(ctx context.Context, key, end string) (store.Read, error) {
	c.t.Gets.Add(1)
	r, err := c.Store.Get(ctx, key, end)
	c.t.Entries.Add(int64(len(r.Entries)))
	for _, e := range r.Entries {
		c.t.Received.Add(size(e))
	}
	return r, err
}

func (c counted) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	c.t.Gets.Add(1)
	r, err := c.Store.GetRanges(ctx, ranges...)
	c.t.Entries.Add(int64(len(r.Entries)))
	for _, e := range r.Entries {
		c.t.Received.Add(size(e))
	}
	return r, err
}

func (c counted) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	c.t.Txns.Add(1)
	for _, g := range t.If {
		c.t.Sent.Add(int64(len(g.Key) + len(g.End) + len(g.Value)))
	}
	for _, w := range t.Then {
		c.t.Sent.Add(int64(len(w.Key) + len(w.End) + len(w.Value)))
	}
	res, err := c.Store.Txn(ctx, t)
	if err == nil && res.OK {
		c.t.Writes.Add(int64(len(t.Then)))
	}
	if res.Else != nil {
		c.t.Received.Add(size(*res.Else))
	}
	return res, err
}

func (c counted) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	c.t.Watches.Add(1)
	out := make(chan store.Change)
	in := c.Store.Watch(ctx, key, end, from)
	go func() { // ends with the watch that it passes on
		defer close(out)
		for n := range in {
			for _, e := range n.Events {
				c.t.Events.Add(1)
				c.t.Received.Add(size(e.Entry))
			}
			select {
			case out <- n:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (c counted) Grant(ctx context.Context, ttl time.Duration) (store.Lease, time.Duration, error) {
	c.t.Grants.Add(1)
	return c.Store.Grant(ctx, ttl)
}

func (c counted) Renew(ctx context.Context, l store.Lease) error {
	c.t.Renews.Add(1)
	return c.Store.Renew(ctx, l)
}

func (c counted) TimeToLive(ctx context.Context, l store.Lease) (left, granted time.Duration, err error) {
	c.t.Gets.Add(1)
	return c.Store.TimeToLive(ctx, l)
}

func (c counted) Revoke(ctx context.Context, l store.Lease) error {
	c.t.Revokes.Add(1)
	return c.Store.Revoke(ctx, l)
}

func size(e store.Entry) int64 { return int64(len(e.Key) + len(e.Value)) }
