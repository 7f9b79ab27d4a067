package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/store"
)

// Left describes the saves that the newest generation may have left on this disk, because its rank
// 0 ended before it could commit them.
type Left struct {
	Stamp  manifest.Stamp  // of that generation
	Resume manifest.Number // the checkpoint that it started from; 0: none
	Dir    *capture.Dir    // the directory of its workers; nil: they were on another node
	Self   membership.Node // this node
}

// CommitLeft commits the newest whole save of that generation, as its rank 0 would have done. It
// returns the new head, or the zero Head if there is no save. The caller must know that rank 0 is
// gone, or that this node was it, so that no other node commits for the generation. The fence
// refuses the commit after a newer generation.
//
// It commits nothing if an older checkpoint was chosen meanwhile.
func CommitLeft(ctx context.Context, r *replicator.Replicator, l Left) (manifest.Head, error) {
	head, committed, err := r.Read(ctx)
	if err != nil {
		return manifest.Head{}, fmt.Errorf("commit what was left: %w", err)
	}
	since, chosen := after(r, l, head, committed)
	if chosen {
		return manifest.Head{}, nil
	}
	if l.Dir != nil {
		// If the directory cannot be read or the save cannot be copied, an older save is committed.
		_ = putLeft(ctx, r, l, head)
	}
	for _, h := range uncommitted(r, since, committed) {
		m, err := r.Store.Manifest(h)
		if err == nil {
			err = r.Store.Verify(ctx, h)
		}
		if ctx.Err() != nil {
			return manifest.Head{}, ctx.Err()
		}
		if err != nil {
			continue // the manifest is damaged; try the previous one
		}
		made, err := r.Record.Commit(ctx, headOf(m, h), head, []membership.Node{l.Self})
		if store.Moved(err) || errors.Is(err, chunkstore.ErrFenced) {
			return manifest.Head{}, nil // a newer generation goes on from the checkpoint that it found
		}
		if err != nil {
			return manifest.Head{}, fmt.Errorf("commit what was left: %w", err)
		}
		return made, nil
	}
	return manifest.Head{}, nil
}

// after returns the position of the generation's last commit. Only later captures may be committed.
// chosen is true if the head is neither the start of the generation nor its last commit: the
// operator or the job has gone back to it.
func after(
	r *replicator.Replicator, l Left, head manifest.Head, committed []manifest.Head,
) (since manifest.Position, chosen bool) {
	held := r.Store.Positions()
	since.Generation = l.Stamp.Generation
	if head.Generation != l.Stamp.Generation {
		return since, head.Number != l.Resume
	}
	at, ok := held[head.Manifest]
	if !ok {
		return since, true // its position is unknown here
	}
	for _, c := range committed {
		if p, ok := held[c.Manifest]; ok && at.Before(p) {
			return at, true
		}
	}
	return at, head.Number < l.Resume
}

// uncommitted returns the later manifests of the generation that have no record, newest first.
func uncommitted(
	r *replicator.Replicator, after manifest.Position, committed []manifest.Head,
) (all []manifest.Hash) {
	held := r.Store.Positions()
	for h, p := range held {
		named := slices.ContainsFunc(committed, func(c manifest.Head) bool { return c.Manifest == h })
		if p.Generation == after.Generation && after.Before(p) && !named && !p.Part {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b manifest.Hash) int {
		return cmp.Or(cmp.Compare(held[b].Sequence, held[a].Sequence), slices.Compare(a[:], b[:]))
	})
	return all
}

// putLeft copies a whole save from the checkpoint directory that was not captured.
func putLeft(ctx context.Context, r *replicator.Replicator, l Left, head manifest.Head) error {
	var last *manifest.Manifest
	if head.Number > 0 {
		var err error
		if last, err = r.Store.Manifest(head.Manifest); err != nil {
			return err // without it the files of a save are unknown
		}
	}
	w, err := capture.WatchLeft(*l.Dir, l.Stamp, r.Store, last)
	if w == nil || err != nil {
		return err
	}
	p, err := w.Left(time.Now())
	if p != nil && parts.Format(pathsIn(p)) == "" { // in a shard format, other nodes may have other parts
		if _, _, err = r.Store.Put(ctx, p.Save); err == nil {
			err = p.RecordFingerprints(r.Store)
		}
	}
	return errors.Join(err, w.Close())
}
