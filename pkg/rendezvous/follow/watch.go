package follow

import (
	"context"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// Decoding a snapshot of a thousand nodes takes as long as many changes take to arrive, and its
// reader needs as long again. After each snapshot, changes are gathered for restFactor times the
// time that it took, within a limit that users do not notice.
const (
	restFactor = 3
	maxRest    = 50 * time.Millisecond
)

// watch applies changes until one of the watches ends or it is time to list again.
func (f *follower) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second+store.Jitter(20*time.Second))
	defer cancel()
	changes := f.Store.Watch(ctx, f.ranges[0].From, f.ranges[0].End, f.rev+1)
	for _, r := range f.ranges[1:] {
		changes = merge(ctx, changes, f.Store.Watch(ctx, r.From, r.End, f.rev+1))
	}
	for c := range changes {
		moved, err := f.gather(c, changes)
		if err != nil {
			return
		}
		if moved {
			s := f.update(ctx, time.Time{})
			f.publish(s)
			if s.Err != nil {
				return // no later change would report this World: list again
			}
		}
	}
}

// gather applies a change, and all that arrive before the next snapshot is due, so that they make
// one snapshot.
func (f *follower) gather(c store.Change, changes <-chan store.Change) (moved bool, err error) {
	var due <-chan time.Time // nil: now
	if wait := time.Until(f.due); wait > 0 {
		due = time.After(wait)
	}
	for {
		moved = f.apply(c) || moved
		if c.Err != nil {
			return moved, c.Err
		}
		var ok bool
		select {
		case c, ok = <-changes:
		default:
			if due == nil {
				return moved, nil
			}
			select {
			case c, ok = <-changes:
			case <-due:
				return moved, nil
			}
		}
		if !ok {
			return moved, nil
		}
	}
}

// merge ends when either ends.
func merge(ctx context.Context, a, b <-chan store.Change) <-chan store.Change {
	out := make(chan store.Change)
	go func() {
		defer close(out)
		for {
			var c store.Change
			var ok bool
			select {
			case c, ok = <-a:
			case c, ok = <-b:
			}
			if !ok {
				return
			}
			select {
			case out <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
