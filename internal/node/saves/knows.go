package saves

import (
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Knows returns the newest commit of which this disk has a record, and the captures of generation g that
// it has.
func (s *Saves) Knows(g schema.Generation) plan.Knowledge {
	s.mu.Lock()
	k := s.replicator
	s.mu.Unlock()
	if k == nil {
		return plan.Knowledge{}
	}
	return Known(k, g)
}

// Known is Knows of a node with that replicator.
func Known(k *replicator.Replicator, g schema.Generation) (all plan.Knowledge) {
	if h, ok := k.Store.Newest(); ok {
		all.Head = h
	}
	all.Copies = k.Captures(g)
	return all
}
