package saves

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// shared reports whether rank 0's node, which is another one, has the checkpoint directory too. It
// is said once.
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

// with are the nodes that each save a part; nil where rank 0's node has all of each save, and where
// this node has no part. A node that has rank 0's directory has no part of its own.
func (s *Saves) with(w rendezvous.World) *pipeline.Sharing {
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

// Stay readies the checkpoint directory for workers that hold the state, and begin from no
// checkpoint. What they saved in older generations and was not committed is set aside: it is of no
// generation any more.
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
