package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Request is a transaction that proves itself: the value of the first write carries a random id, so
// that reading Then[0] tells whether a request without an answer was applied.
type Request struct {
	If   []Guard
	Then []Write
}

// Send applies r and returns the revision at which it was applied.
//
// A result that did not arrive is unknown: the identical transaction is sent
// again until the store answers or ctx ends. When a guard no longer holds,
// the first key decides: our own value there means that an earlier sending
// was applied; anything else means ErrMoved, and that r can never be applied
// any more, because guards compare revisions, which do not come back.
func Send(ctx context.Context, s Store, r Request) (int64, error) {
	if len(r.If) > MaxOps || len(r.Then) > MaxOps {
		return 0, fmt.Errorf("request of %d guards and %d writes: etcd takes %d", len(r.If), len(r.Then), MaxOps)
	}
	proof := r.Then[0]
	t := Txn{If: r.If, Then: r.Then, Else: proof.Key}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		res, err := s.Txn(ctx, t)
		switch {
		case err == nil && res.OK:
			return res.Rev, nil
		case err == nil && res.Else != nil && proof.Value != nil && bytes.Equal(res.Else.Value, proof.Value):
			return res.Else.Rev, nil
		case err == nil:
			return 0, ErrMoved
		case Refused(err):
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("result unknown: %w", err)
		case <-time.After(wait/2 + Jitter(wait/2)):
		}
	}
}

// Refused reports whether err is the store's own no (permission, size,
// space), which sending again does not change.
func Refused(err error) bool {
	for err != nil {
		if r, ok := err.(interface{ Refused() bool }); ok {
			return r.Refused()
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// Moved reports whether err says that a guard of the request no longer held: it was not applied.
func Moved(err error) bool { return errors.Is(err, ErrMoved) }

// Jitter is a random delay below d, so that processes do not all act at once. It comes from the
// nanoseconds of the clock, which differ between processes; a simulation with its own clock repeats
// it.
func Jitter(d time.Duration) time.Duration {
	x := uint64(time.Now().UnixNano())
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(max(d, 1)))
}
