package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	carryPatience = 30 * time.Second // time to find copies of a save, while newer saves wait
	carryPause    = 500 * time.Millisecond
)

// carry replicates and commits a whole save that is on this disk. It returns nil too if the save was
// refused.
func (l *Pipeline) carry(
	ctx context.Context, p *capture.Picture, m *manifest.Manifest, h manifest.Hash,
) error {
	l.made[h], l.left = true, m
	var head manifest.Head
	holders, err := l.copies(ctx, h, nil)
	for err == nil {
		head, err = l.commit(ctx, headOf(m, h), holders)
		var gone *checkpoint.HolderGoneError
		if !errors.As(err, &gone) {
			break
		}
		holders = slices.DeleteFunc(holders, func(n membership.Node) bool { return n.Node == gone.Node })
		if err = pause(ctx, nil); err == nil { // the view will change too
			holders, err = l.copies(ctx, h, holders)
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	l.left = nil
	if err == nil {
		l.afterCommit(ctx, p, m, head)
		if head.Copies < l.replicator.Replicas {
			l.copyAway(ctx, h)
		}
		return nil
	}
	if errors.Is(err, chunkstore.ErrFenced) {
		l.refuse(capture.Refusal{Reason: capture.Fenced, Path: m.Entry, Step: m.Step, Err: err})
		return err
	}
	l.refuse(capture.Refusal{Reason: capture.TooFewNodes, Path: m.Entry, Step: m.Step, Err: err})
	return nil
}

// afterCommit updates this disk and the record after a commit.
func (l *Pipeline) afterCommit(
	ctx context.Context, p *capture.Picture, m *manifest.Manifest, head manifest.Head,
) {
	_ = l.replicator.Store.AddCommitted(head)    // after an error the next read of the record adds it
	_ = p.RecordFingerprints(l.replicator.Store) // after an error more files than needed are moved away later
	l.replicator.Report(replicator.Committed{Head: head, Took: time.Since(p.Save.Time), Entry: m.Entry})
	// An error is ignored: the next commit removes what is left. The next save may need the room.
	_ = l.replicator.DropSurplus(ctx, l.stamp.Generation)
	_ = l.replicator.Tidy(ctx)
}

// headOf returns the record of a manifest that is committed now.
func headOf(m *manifest.Manifest, h manifest.Hash) manifest.Head {
	head := manifest.HeadOf(m, h)
	head.Time = time.Now().UTC()
	return head
}

// pause waits for carryPause, or until moved is closed.
func pause(ctx context.Context, moved <-chan struct{}) error {
	timer := time.NewTimer(carryPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
	case <-timer.C:
	}
	return nil
}

// copies finds enough nodes that hold the manifest: this node, the known holders, and others. If
// too few nodes answer it waits, but only for carryPatience, because newer saves wait.
func (l *Pipeline) copies(
	ctx context.Context, h manifest.Hash, holders []membership.Node,
) ([]membership.Node, error) {
	began := time.Now()
	for {
		nodes, moved := l.replicator.Fresh(ctx)
		holders = registered(nodes, holders, l.replicator.Self)
		var err error
		if len(holders) > 0 {
			if holders, err = l.more(ctx, h, nodes, holders); err != nil &&
				(ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced)) {
				return nil, err
			}
			if enough(nodes, holders, l.replicator.Replicas) {
				return holders, nil
			}
		}
		if time.Since(began) > carryPatience {
			return nil, errors.Join(fmt.Errorf("%d of %d copies", len(holders), l.replicator.Replicas), err)
		}
		if err := pause(ctx, moved); err != nil {
			return nil, err
		}
	}
}

// more replicates to one set of nodes after the other, until there are enough copies or all nodes
// were tried.
func (l *Pipeline) more(
	ctx context.Context, h manifest.Hash, nodes, holders []membership.Node,
) ([]membership.Node, error) {
	rest := slices.DeleteFunc(slices.Clone(nodes), func(n membership.Node) bool {
		return n.Node != l.replicator.Self && has(holders, n)
	})
	var errs []error
	for len(holders) < l.replicator.Replicas {
		to := l.replicator.Targets(rest, l.replicator.Replicas-len(holders))
		if len(to) == 0 {
			break
		}
		got, err := l.replicator.Replicate(ctx, l.stamp.Generation, h, to)
		holders = append(holders, got...)
		if errs = append(errs, err); ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced) {
			break
		}
		rest = slices.DeleteFunc(rest, func(n membership.Node) bool { return has(to, n) })
	}
	return holders, errors.Join(errs...)
}

// commit tries until the save is the head, or can never be. Errors: ErrFenced, *HolderGoneError,
// and refusals of the store.
func (l *Pipeline) commit(
	ctx context.Context, head manifest.Head, holders []membership.Node,
) (manifest.Head, error) {
	g := head.Generation
	for {
		seen, _, err := l.replicator.Read(ctx)
		switch {
		case err == nil && seen.Generation == g && seen.Manifest == head.Manifest:
			return seen, nil
		case err == nil && seen.Generation == g && !l.made[seen.Manifest]:
			// Another node commits for this generation, and this node must not undo that.
			return manifest.Head{}, fmt.Errorf("checkpoint %d is of generation %d too: %w",
				seen.Number, g, chunkstore.ErrFenced)
		case err == nil:
			var made manifest.Head
			if made, err = l.replicator.Record.Commit(ctx, head, seen, holders); err == nil {
				return made, nil
			}
		}
		var gone *checkpoint.HolderGoneError
		if errors.Is(err, chunkstore.ErrFenced) || errors.As(err, &gone) || store.Refused(err) {
			return manifest.Head{}, err
		}
		if err := pause(ctx, nil); err != nil {
			return manifest.Head{}, err
		}
	}
}
