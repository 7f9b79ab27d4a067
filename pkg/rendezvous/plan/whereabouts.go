package plan

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
)

// whereabouts is where a checkpoint is, as far as the store shows.
type whereabouts int

const (
	nowhere  whereabouts = iota // no registered node has it, and no other node held it at its commit
	untold                      // likewise, but the inventory of a registered node is not there yet
	away                        // a node that held it at its commit is not registered
	promised                    // a registered node held it at its commit, and its inventory is not there yet
	here                        // a registered node has it
)

// whereIs returns where checkpoint h is. An inventory counts if its node wrote it after it registered,
// because the disk may have been replaced before. Inventories have no parts, so the record of the commit
// counts for a checkpoint in parts.
func whereIs(s *rendezvous.Snapshot, h *checkpoint.Head) whereabouts {
	at := nowhere
	if slices.ContainsFunc(h.Holders, func(r membership.Ref) bool { return s.Node(r.Node) == nil }) {
		at = away
	}
	for _, n := range s.Nodes {
		have, told := s.Held[n.Node]
		told = told && have.Rev > n.Rev
		switch {
		case told && slices.Contains(have.Numbers, h.Number), h.Parts != nil && h.HeldBy(n.Node):
			return here
		case !told && h.HeldBy(n.Node):
			at = promised
		case !told:
			at = max(at, untold)
		}
	}
	return at
}

// substitutes returns the checkpoints that can replace the head, the newest first.
func substitutes(s *rendezvous.Snapshot) []*checkpoint.Head {
	return ledger.Before(s.History, s.Head.Number, s.Head.Manifest)
}

// Awaited returns the older checkpoint for which a job waits whose head cannot be read, because a node
// that is away may have it; nil: it waits for none.
func Awaited(s *rendezvous.Snapshot) *checkpoint.Head {
	for _, h := range substitutes(s) {
		switch whereIs(s, h) {
		case here, promised:
			return nil
		case away:
			return h
		}
	}
	return nil
}
