package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// reportOvertaken reports, from time to time, that saves are overwritten while they are copied.
func (l *Pipeline) reportOvertaken(p *capture.Picture) {
	now := time.Now()
	if l.failures < putAttempts || !l.tornSaid.IsZero() && now.Sub(l.tornSaid) < sayAgain {
		return
	}
	l.tornSaid = now
	l.refuse(capture.Refusal{Reason: capture.Overwritten, Path: p.Save.Entry, Step: p.Save.Step,
		Err: fmt.Errorf("%w: %d saves in a row were written over while they were copied (%s): write each "+
			"save under another name and rename it, or save less often",
			capture.ErrNotYet, l.failures, p.Save.Entry)})
}

// refusedBefore reports whether saves were just refused for the same reason. A full or failing disk
// refuses each save, so this is reported only from time to time, and for the last save.
func (l *Pipeline) refusedBefore(reason capture.Reason, now time.Time) bool {
	switch reason {
	case capture.NoSpace, capture.Disk, capture.Unreadable, capture.BadPath, capture.TooFewNodes:
	default:
		return false // reported once, or already with a pause
	}
	if at, ok := l.said[reason]; ok && !l.ended && now.Sub(at) < sayAgain {
		return true
	}
	if l.said == nil {
		l.said = map[capture.Reason]time.Time{}
	}
	l.said[reason] = now
	return false
}

const sayAgain = time.Minute

// copyAway copies a checkpoint in the background to nodes that are not registered but may answer.
func (l *Pipeline) copyAway(ctx context.Context, h manifest.Hash) {
	if l.copying.CompareAndSwap(false, true) {
		l.away.Go(func() {
			defer l.copying.Store(false)
			_ = l.replicator.CopyAway(ctx, l.stamp.Generation, h) // optional copy
		})
	}
}
