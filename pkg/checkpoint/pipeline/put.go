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

// putAttempts is how often a save is put that the disk refuses.
const putAttempts = 3

// put copies the save. What a disk refused once it may take the next time, or when there is room.
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

// reason is what an event gives for an error that trying again does not mend, or "".
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
	if l.repeats(r.Reason, time.Now()) {
		return
	}
	l.replicator.Report(replicator.Refused{Generation: l.stamp.Generation, Refusal: r})
}
