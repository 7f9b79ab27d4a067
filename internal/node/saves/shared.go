package saves

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// shared reports whether rank 0's node is another node and uses the checkpoint directory of this
// one. The user is told once if any nodes share it.
func (s *Saves) shared(w rendezvous.World) bool {
	if s.c.Mark.Dir == "" {
		return false
	}
	zero := w.Members[0]
	if zero.Node != s.replicator.Self {
		if !s.c.Mark.Of(zero) {
			return false
		}
		s.tellShared()
		return true
	}
	for _, m := range w.Members[1:] {
		if s.c.Mark.Of(m) {
			s.tellShared()
			break
		}
	}
	return false
}

// sharers returns the nodes that each save a part of a checkpoint. It is nil if rank 0's node saves
// all of it, and if this node saves nothing. A node that shares rank 0's directory saves no part.
func (s *Saves) sharers(w rendezvous.World) *pipeline.Sharing {
	s.mu.Lock()
	job := s.job
	s.mu.Unlock()
	self, savers := s.replicator.Self, job.Savers(&w)
	if !slices.ContainsFunc(savers, func(r membership.Ref) bool { return r.Node == self }) {
		return nil
	}
	apart := func(r membership.Ref) bool { return s.c.Mark.Dir == "" || !s.c.Mark.Of(r) }
	return pipeline.NewSharing(savers, self, job.Rules.SaveFrom, apart)
}

// tellShared tells the user once that nodes share the checkpoint directory.
func (s *Saves) tellShared() {
	s.mu.Lock()
	said := s.sharing
	s.sharing = true
	s.mu.Unlock()
	if !said {
		s.c.Notice("the checkpoint directory is one that nodes share: rank 0's node alone captures from it " +
			"and puts back into it")
	}
}

// Stay prepares the checkpoint directory for workers that keep their state and load no checkpoint.
// Files of older generations that were not committed are moved away.
func (s *Saves) Stay(w rendezvous.World) error {
	s.mu.Lock()
	s.resume = nil
	s.mu.Unlock()
	if err := s.chunks.Raise(w.Generation); err != nil {
		return err
	}
	if s.shared(w) {
		return nil
	}
	return capture.Scratch(s.chunks, s.node.Directory)
}
