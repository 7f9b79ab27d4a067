package saves

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Prepare fetches and verifies the resume checkpoint of w, and restores its files in the checkpoint
// directory.
func (s *Saves) Prepare(ctx context.Context, w rendezvous.World) (message.Resume, error) {
	if err := s.c.PreHook(ctx, w.Generation, w.Size()); err != nil {
		return message.Resume{}, err
	}
	dir := s.node.Directory
	var manifest *checkpoint.Manifest
	defer func() {
		s.mu.Lock()
		s.resume = manifest
		s.mu.Unlock()
	}()
	if err := s.chunks.Raise(w.Generation); err != nil {
		return message.Resume{}, err
	}
	r, shared := w.Resume, s.shared(w)
	if r == nil {
		if shared {
			return message.Resume{}, nil
		}
		return message.Resume{}, capture.Scratch(s.chunks, dir)
	}
	resume := message.Resume{Step: r.Step, Samples: r.Samples}
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
		// The node that plans needs this report: if no node has the checkpoint, an older one is
		// used.
		if s.node.Activity.Unreadable(int64(r.Number), replicator.AskedAt(err)) {
			s.c.Notice(fmt.Sprintf("no node that is here can send checkpoint %d; bring back a node that has it "+
				"(elastic ckpt ls %s): %s", r.Number, s.c.Job, oneLine(err)))
		}
	}
	return resume, err
}

// Fits proves that this node, which is no member of w, could prepare the newest checkpoint of the job. Without an
// answer of the store there is no proof, and none is needed: no World is made meanwhile.
func (s *Saves) Fits(ctx context.Context, w rendezvous.World) error {
	s.mu.Lock()
	k := s.replicator
	s.mu.Unlock()
	if k == nil || s.shared(w) || s.rules().Load == checkpoint.LoadRank0 {
		return nil
	}
	head, _, err := k.Record.Read(ctx)
	if err != nil {
		return nil
	}
	if err := k.Fits(ctx, head, s.node.Directory); !replicator.CannotBeHad(err) {
		return err
	}
	return nil // the newest one is another one by now, or the job waits for a node that has it
}

// NotReady tells the other nodes, and with them the operator, why this node is not ready. If its store was
// removed, it never will be, so it leaves.
func (s *Saves) NotReady(err error) {
	if s.chunks.Abandoned() != nil {
		s.leave()
	}
	if !replicator.CannotBeHad(err) { // Prepare has reported that
		s.node.Activity.Blocked(oneLine(err))
	}
}

// Ready ends the report of NotReady.
func (s *Saves) Ready() { s.node.Activity.Nothing() }

// reader returns the ranks of this node in w, if it may fetch only the files that its ranks load;
// nil: all files. A node has fixed ranks only if all nodes have the same number of workers.
func (s *Saves) reader(w rendezvous.World) *parts.Reader {
	at := slices.IndexFunc(w.Members, func(m membership.Ref) bool { return m.Node == s.replicator.Self })
	if s.rules().Load != checkpoint.LoadOwn || w.Ranks != nil || at < 0 {
		return nil
	}
	return &parts.Reader{Rank: at, Nodes: len(w.Members), Workers: w.Size()}
}

// CommitLeft commits the saves that rank 0 of w left on this disk before it ended. It uses the
// checkpoint directory only if this node was rank 0.
func (s *Saves) CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error {
	left := pipeline.Left{Stamp: s.stamp(w), Self: self}
	if w.Resume != nil {
		left.Resume = w.Resume.Number
	}
	if sharing := s.sharers(w); w.Members[0].Node == self.Node && (sharing == nil || !sharing.All) {
		dir := s.node.Directory
		left.Dir = &dir
	}
	h, err := pipeline.CommitLeft(ctx, s.replicator, left)
	switch {
	case errors.Is(err, replicator.ErrStoreBehind) || errors.Is(err, checkpoint.ErrOtherJob):
		return nil // joining detects this too
	case err != nil:
		return err
	case h.Number > 0:
		s.c.Notice(fmt.Sprintf("a save that generation %d left on this node is committed: checkpoint "+
			"%d%s", w.Generation, h.Number, checkpoint.AtStep(h.Step)))
	}
	return nil
}

// stamp names the generation of w in its captures.
func (s *Saves) stamp(w rendezvous.World) checkpoint.Stamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return checkpoint.Stamp{Job: s.c.Job, UID: s.job.Identity(), Generation: w.Generation,
		WorldSize: w.Size()}
}

// HandOver ensures that another node has the head before this node leaves.
func (s *Saves) HandOver(ctx context.Context) {
	s.mu.Lock()
	k, chunks := s.replicator, s.chunks
	s.mu.Unlock()
	if k == nil || chunks.Abandoned() != nil {
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
	if others, err := othersWith(ctx, k, head.Number); err == nil && len(others) > 0 {
		return
	}
	_ = k.Spread(ctx, head.Generation, head.Manifest, 1) // if this fails, the head stays on this disk only
}

// awaitWhole waits until another node has all of a checkpoint of which this node has parts. If the
// world waits for a node that leaves, rank 0's node collects the parts. Otherwise each part has its
// copies on other nodes.
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
		whole, err := k.Record.Inventories(ctx, n) // rank 0's node counts too, if it left earlier
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

// wholeLimit is the time limit of awaitWhole.
const wholeLimit = 15 * time.Second
