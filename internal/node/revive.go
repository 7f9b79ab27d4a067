package node

// This file starts the local server again if it does not answer.

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// revivingStore is the store of the local server. If the server does not answer, the first agent that
// notices it starts it again on the same data. The others then connect to that server.
type revivingStore struct {
	missed chan struct{} // holds one value when the server was missed
	ensure func(context.Context) (local.Endpoint, error)
	open   func(context.Context, local.Endpoint) (store.Store, error) // until ctx ends

	mu    sync.Mutex // guards what follows
	store store.Store
	close context.CancelFunc // ends store; does nothing for the first store, which the caller owns
	at    local.Endpoint
}

// servedStore is a store and where its server listens.
type servedStore struct {
	Store store.Store
	At    local.Endpoint
}

// reviveStore watches the local server of r, and starts it again if needed. s is the server now.
func reviveStore(effects *scope.Scope, s servedStore, r local.Runtime) *revivingStore {
	v := &revivingStore{store: s.Store, at: s.At, missed: make(chan struct{}, 1), close: func() {},
		ensure: func(ctx context.Context) (local.Endpoint, error) {
			found, _, err := local.Ensure(ctx, r)
			return found, err
		},
		open: func(ctx context.Context, at local.Endpoint) (store.Store, error) {
			return etcd.Open(ctx, etcd.Config{Endpoints: []string{string(at)}, OwnSocket: true})
		}}
	effects.Go(v.run)
	return v
}

// run starts the server again each time that it is missed.
func (v *revivingStore) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.missed:
		}
		// After an error the next request that fails tries again.
		if at, err := v.ensure(ctx); err == nil {
			v.move(ctx, at)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// move connects to the server at another address. Requests to the old address end, and watchers
// list again from the new one.
func (v *revivingStore) move(ctx context.Context, at local.Endpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at == v.at {
		return
	}
	ctx, end := context.WithCancel(ctx)
	s, err := v.open(ctx, at)
	if err != nil {
		end()
		return
	}
	v.close()
	v.store, v.close, v.at = s, end, at
}

// current returns the store of the server that is used now.
func (v *revivingStore) current() store.Store {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store
}

// miss makes run look for the server if err says that it did not answer. It returns err.
func (v *revivingStore) miss(err error) error {
	if err != nil && !store.Refused(err) && err != store.ErrLeaseLost {
		select {
		case v.missed <- struct{}{}:
		default:
		}
	}
	return err
}

func (v *revivingStore) Get(ctx context.Context, key, end string) (store.Read, error) {
	r, err := v.current().Get(ctx, key, end)
	return r, v.miss(err)
}

func (v *revivingStore) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	r, err := v.current().GetRanges(ctx, ranges...)
	return r, v.miss(err)
}

func (v *revivingStore) Renew(ctx context.Context, l store.Lease) error {
	return v.miss(v.current().Renew(ctx, l))
}

func (v *revivingStore) TimeToLive(ctx context.Context, l store.Lease) (left, granted time.Duration, err error) {
	left, granted, err = v.current().TimeToLive(ctx, l)
	return left, granted, v.miss(err)
}

func (v *revivingStore) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	return v.current().Txn(ctx, t)
}

func (v *revivingStore) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	return v.current().Watch(ctx, key, end, from)
}

func (v *revivingStore) Grant(ctx context.Context, ttl time.Duration) (store.Lease, time.Duration, error) {
	return v.current().Grant(ctx, ttl)
}

func (v *revivingStore) Revoke(ctx context.Context, l store.Lease) error {
	return v.current().Revoke(ctx, l)
}
