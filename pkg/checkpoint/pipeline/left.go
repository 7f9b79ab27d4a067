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

// Left is what the newest generation may have left on this disk: its rank 0 ended before it could
// commit.
type Left struct {
	Stamp  manifest.Stamp  // of that generation
	Resume manifest.Number // what it resumed from; 0: from scratch
	Dir    *capture.Dir    // where its workers wrote; nil: on another node
	Self   membership.Node // this node, registered or about to be
}

// CommitLeft makes the newest whole save of that generation the head, as its rank 0 would have
// done, and returns it; the zero Head if there is none. No other node may commit as that
// generation any more: the caller knows that its rank 0 is gone, or that this node was it. The
// fence refuses what comes after a newer generation.
//
// If an older checkpoint was chosen since, nothing is committed.
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
		// A directory that cannot be read, or a save that cannot be copied, is no reason not to
		// commit an older one.
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
			continue // damaged: the one before may be whole
		}
		made, err := r.Record.Commit(ctx, manifest.Head{Generation: m.Generation, Manifest: h, Step: m.Step,
			Samples: m.Samples,
			Bytes:   m.Bytes(), Time: time.Now().UTC()}, head, []membership.Node{l.Self})
		if store.Moved(err) || errors.Is(err, chunkstore.ErrFenced) {
			return manifest.Head{}, nil // a newer generation goes on from what it found
		}
		if err != nil {
			return manifest.Head{}, fmt.Errorf("commit what was left: %w", err)
		}
		return made, nil
	}
	return manifest.Head{}, nil
}

// after is the position of the generation's last commit: only what it captured later may be
// committed. chosen reports that the head is neither what the generation began with nor what it
// made last: an operator, or the job itself, went back to it.
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
		return since, true // its place among the captures is not known here
	}
	for _, c := range committed {
		if p, ok := held[c.Manifest]; ok && at.Before(p) {
			return at, true
		}
	}
	return at, head.Number < l.Resume
}

// uncommitted are the manifests of the generation that no record names and that were captured
// later, newest first.
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

// putLeft copies a whole save that lies in the checkpoint directory and was not captured.
func putLeft(ctx context.Context, r *replicator.Replicator, l Left, head manifest.Head) error {
	var last *manifest.Manifest
	if head.Number > 0 {
		var err error
		if last, err = r.Store.Manifest(head.Manifest); err != nil {
			return err // what belongs to a save is not known
		}
	}
	w, err := capture.WatchLeft(*l.Dir, l.Stamp, r.Store, last)
	if w == nil || err != nil {
		return err
	}
	p, err := w.Left(time.Now())
	if p != nil && parts.Format(pathsIn(p)) == "" { // else the other nodes may have other parts of it
		if _, _, err = r.Store.Put(ctx, p.Save); err == nil {
			err = p.TakeInventory(r.Store)
		}
	}
	return errors.Join(err, w.Close())
}
