package plan

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/trust"
)

// Whereabouts says where a checkpoint is, as far as the store shows.
type Whereabouts int

const (
	Nowhere Whereabouts = iota // no registered node has it, and no other node held it at its commit
	Untold                     // likewise, but a registered node has not said yet what it has
	Away                       // a node that held it at its commit is not registered
	Here                       // a registered node has it
)

// WhereIs says where checkpoint h is. What a node said since it registered counts: its disk may have
// been replaced before. Nodes say nothing about parts, so for these the record of the commit counts.
func WhereIs(s *rendezvous.Snapshot, h *checkpoint.Head) Whereabouts {
	at := Nowhere
	for _, n := range s.Nodes {
		have, told := s.Held[n.Node]
		told = told && have.Rev > n.Rev
		switch {
		case told && slices.Contains(have.Numbers, h.Number), h.Parts != nil && h.HeldBy(n.Node):
			return Here
		case !told:
			at = Untold
		}
	}
	if slices.ContainsFunc(h.Holders, func(r membership.Ref) bool { return s.Node(r.Node) == nil }) {
		return Away
	}
	return at
}

// substitutes are the checkpoints that may take the place of the head, the newest first.
func substitutes(s *rendezvous.Snapshot) []*checkpoint.Head {
	return trust.Before(s.History, s.Head.Number, s.Head.Manifest)
}

// Awaited is the older checkpoint for which a job waits whose head cannot be read: a node that is away may
// have it. nil: it waits for none.
func Awaited(s *rendezvous.Snapshot) *checkpoint.Head {
	for _, h := range substitutes(s) {
		switch WhereIs(s, h) {
		case Here:
			return nil
		case Away:
			return h
		}
	}
	return nil
}
