package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Request is a transaction whose result can be read back. Send puts a random id into the value of
// the first write, so reading Then[0] shows whether a request without an answer was applied.
type Request struct {
	If   []Guard
	Then []Write
}

// Send applies r and returns the revision at which it was applied.
//
// If no answer arrives, the result is unknown. Send then sends the identical transaction again,
// until the store answers or ctx ends. If a guard no longer holds, the key of the first write
// decides. If it has this request's own value, an earlier sending was applied. Anything else means
// ErrMoved: r was not applied, and never will be, because guards compare revisions, which do not
// come back.
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

// Refused reports whether err is a final error of the store (permission, size, space). A repeated
// request would get it again.
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

// Moved reports whether err is ErrMoved: a guard did not hold, and the request was not applied.
func Moved(err error) bool { return errors.Is(err, ErrMoved) }

// Jitter returns a random delay below d, so that processes do not all act at once. It uses the
// nanoseconds of the clock, which differ between processes, and are the same in each run of a
// simulation with its own clock.
func Jitter(d time.Duration) time.Duration {
	x := uint64(time.Now().UnixNano())
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(max(d, 1)))
}
