package node

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/internal/local"
)

// reviver is the store of the local server. When that does not answer, it is started again: on its
// data, by whichever agent misses it first.
type reviver struct {
	keys.Store
	missed chan struct{} // holds one value when the server was missed
}

func revive(ctx context.Context, effects *sync.WaitGroup, s keys.Store, r local.Runtime) *reviver {
	v := &reviver{Store: s, missed: make(chan struct{}, 1)}
	effects.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-v.missed:
			}
			// An error is made good by the next request that misses the server.
			_, _, _ = local.Ensure(ctx, r)
			select {
			case <-ctx.Done():
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	return v
}

func (v *reviver) miss(err error) error {
	if err != nil && !keys.Refused(err) && err != keys.ErrLeaseLost {
		select {
		case v.missed <- struct{}{}:
		default:
		}
	}
	return err
}

func (v *reviver) Get(ctx context.Context, key, end string) (keys.Read, error) {
	r, err := v.Store.Get(ctx, key, end)
	return r, v.miss(err)
}

func (v *reviver) Renew(ctx context.Context, l keys.Lease) error {
	return v.miss(v.Store.Renew(ctx, l))
}
