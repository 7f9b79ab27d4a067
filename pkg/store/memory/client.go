package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// How long a request waits for its answer, as in pkg/store/etcd.
const (
	requestLimit = 2 * time.Second
	renewLimit   = 700 * time.Millisecond
)

// errUnknown is the error of a request without an answer.
var errUnknown = errors.New("no answer")

// Op is a request, as a hook sees it before it is sent.
type Op struct {
	Kind Kind
	Key  string    // of a Get
	Txn  store.Txn // of a Txn
}

// Kind is the method of store.Store that was called.
type Kind int

const (
	Get Kind = iota
	Txn
	Grant
	Renew
	TimeToLive
	Revoke
)

// Fate is what happens to a request. The zero value delivers it.
type Fate struct {
	Lost  bool          // it never arrives
	Held  bool          // it arrives when Release is called
	Delay time.Duration // it arrives later by this
	Mute  bool          // it arrives, but its answer does not
}

// Client is the store.Store of one process.
type Client struct {
	c    *Cluster
	name string

	// guarded by the cluster's mu
	hook    func(Op) Fate
	cut     bool
	deaf    bool
	stopped chan struct{} // closed when the process goes on; nil while it runs
	unsent  []*request    // sent when the process continues
	kept    []*request    // Fate.Held
}

var _ store.Store = (*Client)(nil)

// Client returns a new store for one process; name is for messages.
func (c *Cluster) Client(name string) *Client { return &Client{c: c, name: name} }

// Fates sets the hook that decides the fate of each request; nil: none. The hook runs in the
// goroutine of the request, without a lock. So it may use clients and the cluster, and must guard
// what it shares.
func (cl *Client) Fates(hook func(Op) Fate) {
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	cl.hook = hook
}

// Random returns a hook for Fates. The share lost of all requests gets no answer, and half of these
// are applied. The share late arrives up to longest later, possibly long after the caller has given
// up.
func Random(rng *rand.Rand, lost, late float64, longest time.Duration) func(Op) Fate {
	var mu sync.Mutex
	return func(Op) Fate {
		mu.Lock()
		defer mu.Unlock()
		var f Fate
		if rng.Float64() < lost {
			f.Lost = rng.IntN(2) == 0
			f.Mute = !f.Lost
		}
		if rng.Float64() < late {
			f.Delay = time.Duration(rng.Int64N(int64(longest) + 1))
		}
		return f
	}
}

// Cut cuts the network off: requests are lost, and watches are silent. Afterwards watches deliver
// what they missed.
func (cl *Client) Cut(on bool) { cl.set(func() { cl.cut = on }) }

// Deaf silences only the watches, also those opened in the meantime, as a paused member does.
// Afterwards they deliver what they missed, late.
func (cl *Client) Deaf(on bool) { cl.set(func() { cl.deaf = on }) }

// Stop stops the process as SIGSTOP does, as far as a store sees it: no
// request leaves and no answer or change arrives until Continue.
func (cl *Client) Stop() {
	cl.set(func() {
		if cl.stopped == nil {
			cl.stopped = make(chan struct{})
		}
	})
}

// Continue ends Stop. Requests made in the meantime are sent now.
func (cl *Client) Continue() {
	cl.set(func() {
		if cl.stopped == nil {
			return
		}
		close(cl.stopped)
		cl.stopped = nil
		for _, r := range cl.unsent {
			cl.send(r)
			time.AfterFunc(r.limit, func() { r.reply(errUnknown) })
		}
		cl.unsent = nil
	})
}

// Release lets all requests with Fate.Held arrive, in their order.
func (cl *Client) Release() {
	cl.set(func() {
		for _, r := range cl.kept {
			cl.c.arrive(r)
		}
		cl.kept = nil
	})
}

func (cl *Client) set(change func()) {
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	change()
	cl.c.wakeWatches()
}

// deafened reports whether no change reaches the process.
func (cl *Client) deafened() bool {
	return cl.cut || cl.deaf || cl.stopped != nil || cl.c.state != up
}

// Get, see store.Store.
func (cl *Client) Get(ctx context.Context, key, end string) (store.Read, error) {
	var res store.Read
	err := cl.do(ctx, Op{Kind: Get, Key: key}, requestLimit, func() (err error) {
		res, err = cl.c.get(key, end)
		return err
	})
	if err != nil {
		return store.Read{}, fmt.Errorf("%s: read %s: %w", cl.name, key, err)
	}
	return res, nil
}

// GetRanges, see store.Store.
func (cl *Client) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	var res store.Read
	err := cl.do(ctx, Op{Kind: Get, Key: ranges[0].From}, requestLimit, func() error {
		res = store.Read{}
		for _, g := range ranges {
			r, err := cl.c.get(g.From, g.End)
			if err != nil {
				return err
			}
			if g.Most > 0 {
				r.Entries = r.Entries[:min(g.Most, len(r.Entries))]
			}
			res.Entries = append(res.Entries, r.Entries...)
			res.Rev, res.Cluster = r.Rev, r.Cluster
		}
		return nil
	})
	if err != nil {
		return store.Read{}, fmt.Errorf("%s: read %s: %w", cl.name, ranges[0].From, err)
	}
	return res, nil
}

// Txn, see store.Store.
func (cl *Client) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	var res store.TxnResult
	err := cl.do(ctx, Op{Kind: Txn, Txn: t}, requestLimit, func() (err error) {
		res, err = cl.c.txn(t)
		return err
	})
	if err != nil {
		return store.TxnResult{}, fmt.Errorf("%s: transaction: %w", cl.name, err)
	}
	return res, nil
}

// Grant, see store.Store.
func (cl *Client) Grant(ctx context.Context, ttl time.Duration) (store.Lease, time.Duration, error) {
	var res *lease
	err := cl.do(ctx, Op{Kind: Grant}, requestLimit, func() (err error) {
		res, err = cl.c.grant(ttl)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("%s: grant lease: %w", cl.name, err)
	}
	return res.id, res.ttl, nil
}

// Renew, see store.Store.
func (cl *Client) Renew(ctx context.Context, l store.Lease) error {
	err := cl.do(ctx, Op{Kind: Renew}, renewLimit, func() error { return cl.c.renew(l) })
	if err != nil {
		return fmt.Errorf("%s: renew lease: %w", cl.name, err)
	}
	return nil
}

// TimeToLive, see store.Store.
func (cl *Client) TimeToLive(ctx context.Context, l store.Lease) (left, granted time.Duration, err error) {
	err = cl.do(ctx, Op{Kind: TimeToLive}, requestLimit, func() (err error) {
		left, granted, err = cl.c.timeToLive(l)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("%s: read lease: %w", cl.name, err)
	}
	return left, granted, nil
}

// Revoke, see store.Store. A lease that is gone already is no error.
func (cl *Client) Revoke(ctx context.Context, l store.Lease) error {
	err := cl.do(ctx, Op{Kind: Revoke}, requestLimit, func() error {
		cl.c.revoke(l)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: revoke lease: %w", cl.name, err)
	}
	return nil
}

// request is a request on its way. It is applied at most once, under the lock.
type request struct {
	fate   Fate
	limit  time.Duration // how long the caller waits, once it is sent
	apply  func() error
	answer chan error // holds the first; the caller may be gone
}

func (r *request) reply(err error) {
	select {
	case r.answer <- err:
	default:
	}
}

// do sends a request and waits for its answer. After an error, the request may still be applied,
// now or later.
func (cl *Client) do(ctx context.Context, op Op, limit time.Duration, apply func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cl.c.mu.Lock()
	hook := cl.hook
	cl.c.mu.Unlock()
	var fate Fate
	if hook != nil {
		fate = hook(op)
	}

	cl.c.mu.Lock()
	if fate == (Fate{}) && !cl.cut && cl.stopped == nil && cl.c.state == up {
		defer cl.c.mu.Unlock()
		return apply()
	}
	r := &request{fate: fate, limit: limit, apply: apply, answer: make(chan error, 1)}
	var patience <-chan time.Time
	if cl.stopped != nil {
		cl.unsent = append(cl.unsent, r)
	} else {
		cl.send(r)
		patience = time.After(limit)
	}
	cl.c.mu.Unlock()

	var err error
	select {
	case err = <-r.answer:
	case <-patience:
		err = errUnknown
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnknown, ctx.Err())
	}
	return cl.hear(ctx, err, fate.Delay)
}

// hear returns an answer to a running process. A process that was stopped gets it later than that,
// as if the answer had been on its way.
func (cl *Client) hear(ctx context.Context, err error, later time.Duration) error {
	for {
		cl.c.mu.Lock()
		stopped := cl.stopped
		cl.c.mu.Unlock()
		if stopped == nil {
			return err
		}
		select {
		case <-stopped:
			select {
			case <-time.After(later):
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errUnknown, ctx.Err())
		}
	}
}

// send puts a request on the network.
func (cl *Client) send(r *request) {
	switch {
	case cl.cut || r.fate.Lost:
	case r.fate.Held:
		cl.kept = append(cl.kept, r)
	case r.fate.Delay > 0:
		time.AfterFunc(r.fate.Delay, func() {
			cl.c.mu.Lock()
			defer cl.c.mu.Unlock()
			cl.c.arrive(r)
		})
	default:
		cl.c.arrive(r)
	}
}

// arrive applies a request that reached the cluster.
func (c *Cluster) arrive(r *request) {
	var err error
	switch c.state {
	case frozen:
		c.held = append(c.held, r)
		return
	case down:
		err = ErrDown
	case up:
		err = r.apply()
	}
	if !r.fate.Mute {
		r.reply(err)
	}
}
