package membership

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// Leased is a lease and its time to live.
type Leased struct {
	Lease store.Lease
	TTL   time.Duration
}

// Keep renews l every third of its TTL until ctx ends or the store says that it is gone.
// report is told the outcome of every renewal: nil, store.ErrLeaseLost (the last call), or an
// error that says nothing about the lease. sent is when the renewal was *sent*: validity
// counts from there.
func Keep(ctx context.Context, s store.Store, l Leased, report func(sent time.Time, err error)) {
	every := l.TTL / 3
	wait := time.NewTimer(every)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		sent := time.Now()
		err := s.Renew(ctx, l.Lease)
		if ctx.Err() != nil {
			return
		}
		report(sent, err)
		switch {
		case errors.Is(err, store.ErrLeaseLost):
			return
		case err != nil:
			wait.Reset(min(every, 200*time.Millisecond)) // the store has its own deadline per try
		default:
			now := time.Now()
			wait.Reset(lastTick(now, max(0, every-now.Sub(sent)), DefaultBeats().Every))
		}
	}
}
