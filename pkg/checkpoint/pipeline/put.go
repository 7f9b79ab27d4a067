package pipeline

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// putAttempts is how many looks in a row fail to copy a save until that is reported.
const putAttempts = 3

// failed handles a save that could not be copied. It is not taken, so the next look finds it again, unless
// it can never be copied. The last look is repeated.
func (l *Pipeline) failed(ctx context.Context, p *capture.Picture, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why := reason(err)
	l.failures++
	if why == capture.Torn && !l.ended { // it is being written again
		l.reportOvertaken(p)
		return nil
	}
	if why == capture.NoSpace { // an error is ignored: the next look tries again
		_ = errors.Join(l.replicator.DropSurplus(ctx, l.stamp.Generation), l.replicator.Tidy(ctx))
	}
	passes := why == "" || why == capture.NoSpace
	if passes && l.failures < putAttempts {
		if l.ended {
			return l.step(ctx)
		}
		return nil
	}
	if !passes || l.ended {
		l.capture.Taken(p)
	}
	l.refuse(capture.Refusal{Reason: cmp.Or(why, capture.Disk), Path: p.Save.Entry, Step: p.Save.Step, Err: err})
	if why == capture.Fenced {
		return err
	}
	return nil
}

// reason returns the reason for an event if trying again does not help, or "".
func reason(err error) capture.Reason {
	for _, r := range []struct {
		err    error
		reason capture.Reason
	}{
		{chunkstore.ErrFenced, capture.Fenced},
		{chunkstore.ErrTorn, capture.Torn},
		{manifest.ErrBadPath, capture.BadPath},
		{manifest.ErrBadManifest, capture.BadPath},
		{dirfs.ErrNoSpace, capture.NoSpace},
		{dirfs.ErrQuarantined, capture.Disk},
	} {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return ""
}

func (l *Pipeline) refuse(r capture.Refusal) {
	if l.refusedBefore(r.Reason, time.Now()) {
		return
	}
	l.replicator.Report(replicator.Refused{Generation: l.stamp.Generation, Refusal: r})
}
