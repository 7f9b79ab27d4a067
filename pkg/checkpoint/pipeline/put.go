package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// putAttempts is how often a save is put if the disk fails.
const putAttempts = 3

// put copies the save into the store. It tries again after a failure of the disk, which may be
// temporary.
func (l *Pipeline) put(
	ctx context.Context, save chunkstore.Save,
) (m *manifest.Manifest, h manifest.Hash, err error) {
	for range putAttempts {
		m, h, err = l.replicator.Put(ctx, save)
		switch {
		case err == nil || ctx.Err() != nil:
			return m, h, err
		case errors.Is(err, dirfs.ErrNoSpace):
			if l.replicator.DropSurplus(ctx, save.Generation) != nil || l.replicator.Tidy(ctx) != nil {
				return m, h, err
			}
		case reason(err) != "":
			return m, h, err
		}
	}
	return m, h, err
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
