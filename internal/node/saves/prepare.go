package saves

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Prepare has the resume checkpoint of w on this disk, verified, and its files in the checkpoint
// directory.
func (s *Saves) Prepare(ctx context.Context, w rendezvous.World) (event.Resume, error) {
	if err := s.c.PreHook(ctx, w.Generation, w.Size()); err != nil {
		return event.Resume{}, err
	}
	dir := s.node.Directory
	var manifest *checkpoint.Manifest
	defer func() {
		s.mu.Lock()
		s.resume = manifest
		s.mu.Unlock()
	}()
	if err := s.chunks.Raise(w.Generation); err != nil {
		return event.Resume{}, err
	}
	r, shared := w.Resume, s.shared(w)
	if r == nil {
		if shared {
			return event.Resume{}, nil
		}
		return event.Resume{}, capture.Scratch(s.chunks, dir)
	}
	resume := event.Resume{Step: r.Step, Samples: r.Samples}
	if s.rules().Load == checkpoint.LoadRank0 && w.Members[0].Node != s.replicator.Self {
		return resume, nil
	}
	var err error
	if shared {
		resume.From, err = s.replicator.Entry(ctx, r.Number, r.Manifest, dir.Path)
	} else {
		from := replicator.Resume{Generation: w.Generation, Number: r.Number, Manifest: r.Manifest,
			Own: s.reader(w)}
		resume.From, manifest, err = s.replicator.Prepare(ctx, from, dir)
	}
	switch {
	case err == nil:
		s.node.Activity.Nothing()
	case replicator.CannotBeHad(err):
		// The planning node must know: if no node can provide it, an older one takes its place.
		if s.node.Activity.Unreadable(int64(r.Number), replicator.AskedAt(err)) {
			s.c.Notice(fmt.Sprintf("checkpoint %d cannot be had from any node that is here; bring back a "+
				"node that has it "+
				"(elastic ckpt ls %s): %s", r.Number, s.c.Job, oneLine(err)))
		}
	}
	return resume, err
}

// reader is this node in w where it is to have no more of a checkpoint than its ranks load; nil: all.
// Its rank is that of its workers only where all nodes have the same number of them.
func (s *Saves) reader(w rendezvous.World) *parts.Reader {
	at := slices.IndexFunc(w.Members, func(m membership.Ref) bool { return m.Node == s.replicator.Self })
	if s.rules().Load != checkpoint.LoadOwn || w.Ranks != nil || at < 0 {
		return nil
	}
	return &parts.Reader{Rank: at, Nodes: len(w.Members), Workers: w.Size()}
}

// CommitLeft commits what rank 0 of w, which is gone, left on this disk. What was left in a
// checkpoint directory counts on the node whose workers wrote it.
func (s *Saves) CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error {
	left := pipeline.Left{Stamp: s.stamp(w), Self: self}
	if w.Resume != nil {
		left.Resume = w.Resume.Number
	}
	if with := s.with(w); w.Members[0].Node == self.Node && (with == nil || !with.All) {
		dir := s.node.Directory
		left.Dir = &dir
	}
	h, err := pipeline.CommitLeft(ctx, s.replicator, left)
	switch {
	case errors.Is(err, replicator.ErrStoreBehind) || errors.Is(err, checkpoint.ErrOtherJob):
		return nil // joining finds that out by itself
	case err != nil:
		return err
	case h.Number > 0:
		s.c.Notice(fmt.Sprintf("a save that generation %d left on this node is committed: checkpoint "+
			"%d%s", w.Generation, h.Number, checkpoint.AtStep(h.Step)))
	}
	return nil
}

func (s *Saves) stamp(w rendezvous.World) checkpoint.Stamp {
	return checkpoint.Stamp{Job: s.c.Job, UID: w.UID, Generation: w.Generation, WorldSize: w.Size()}
}

// HandOver makes sure that another node has the head before this one leaves.
func (s *Saves) HandOver(ctx context.Context) {
	s.mu.Lock()
	k, chunks := s.replicator, s.chunks
	s.mu.Unlock()
	if k == nil {
		return
	}
	head, _, err := k.Record.Read(ctx)
	if err != nil || head.Number == 0 || !chunks.HasManifest(head.Manifest) {
		return
	}
	if !chunks.Has(head.Manifest) {
		awaitWhole(ctx, k, head.Number)
		return
	}
	elsewhere, err := k.Record.Claimants(ctx, head.Number)
	for _, h := range elsewhere {
		if err == nil && h.Node != k.Self {
			return
		}
	}
	_ = k.Spread(ctx, head.Generation, head.Manifest, 1) // alone, it stays on this disk
}

// awaitWhole waits until another node has all of a checkpoint of which this one has parts: rank 0's
// node brings them together when the world waits for a node that leaves. In a world that does not,
// each part has its copies elsewhere.
func awaitWhole(ctx context.Context, k *replicator.Replicator, n checkpoint.Number) {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	prefix := k.Record.Job.AllHeld()
	read, err := k.Record.Store.Get(ctx, prefix, store.End(prefix))
	if err != nil {
		return
	}
	changes := k.Record.Store.Watch(ctx, prefix, store.End(prefix), read.Rev+1)
	for {
		whole, err := k.Record.Inventories(ctx, n) // also of rank 0's node, if that has left before
		if err != nil || slices.ContainsFunc(whole, func(node string) bool { return node != k.Self }) {
			return
		}
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// wholeLimit is how long a node that leaves waits for that.
const wholeLimit = 15 * time.Second
