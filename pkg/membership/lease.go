package membership

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// ErrRenewed says that a lease may have been renewed lately.
var ErrRenewed = errors.New("its lease is renewed")

// NotRenewed reads whether the last renewal of a lease is longer ago than the interval of Keep. It
// returns ErrRenewed if it may not be: the store counts in whole seconds.
func NotRenewed(ctx context.Context, s store.Store, l store.Lease) error {
	left, granted, err := s.TimeToLive(ctx, l)
	if err == nil && granted-left-time.Second < granted/3 {
		err = ErrRenewed
	}
	return wrap("read whether a node stands still", err)
}

// Leased is a lease and its time to live.
type Leased struct {
	Lease store.Lease
	TTL   time.Duration
}

// Keep renews l every third of its TTL until ctx ends or the store says that the lease is gone. It
// passes the outcome of every renewal to report: nil, store.ErrLeaseLost (the last call), or an
// error that proves nothing about the lease. sent is when the renewal was sent, which is where its
// validity begins.
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
