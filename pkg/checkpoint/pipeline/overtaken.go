package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// overtaken says now and then that saves are written over faster than they can be copied.
func (l *Pipeline) overtaken(p *capture.Picture) {
	now := time.Now()
	if l.torn.IsZero() {
		l.torn = now
	}
	if now.Sub(l.torn) < overtakenAfter || !l.tornSaid.IsZero() && now.Sub(l.tornSaid) < overtakenAgain {
		return
	}
	l.tornSaid = now
	l.refuse(capture.Refusal{Reason: capture.Unsettled, Path: p.Save.Entry, Step: p.Save.Step,
		Err: fmt.Errorf("%w: %q is written over while it is copied; write each save under another name and "+
			"rename it",
			capture.ErrUnsettled, p.Save.Entry)})
}

// repeats reports whether saves were refused for the same reason a moment ago. A disk that is full,
// or fails, refuses each save: that is said now and then, and of the last save.
func (l *Pipeline) repeats(reason capture.Reason, now time.Time) bool {
	switch reason {
	case capture.NoSpace, capture.Disk, capture.Unreadable, capture.BadPath, capture.TooFewNodes:
	default:
		return false // it ends the generation, or is said with a pause already
	}
	if at, ok := l.said[reason]; ok && !l.ended && now.Sub(at) < overtakenAgain {
		return true
	}
	if l.said == nil {
		l.said = map[capture.Reason]time.Time{}
	}
	l.said[reason] = now
	return false
}

const (
	overtakenAfter = 8 * time.Second
	overtakenAgain = time.Minute
)

// copyAway has nodes that are not registered keep a copy, if they answer; no save waits for that.
func (l *Pipeline) copyAway(ctx context.Context, h manifest.Hash) {
	if l.copying.CompareAndSwap(false, true) {
		l.away.Go(func() {
			defer l.copying.Store(false)
			_ = l.replicator.CopyAway(ctx, l.stamp.Generation, h) // it is one copy more than was promised
		})
	}
}
