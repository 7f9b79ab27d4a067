package overview

import (
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
)

// Checkpoint is one commit, and which nodes have it.
type Checkpoint struct {
	Number     checkpoint.Number `json:"number"`
	Step       *int64            `json:"step"`
	Samples    *int64            `json:"samples"`
	Generation schema.Generation `json:"generation"`
	WorldSize  *int              `json:"world_size"` // null: the event was removed
	Bytes      int64             `json:"bytes"`
	Holders    []string          `json:"holders"` // nodes that have it and are registered
	Away       []string          `json:"away"`    // nodes that have it and are not registered
	Copies     int               `json:"copies"`  // copies of the part with the fewest, at its commit
	Parts      int               `json:"parts"`   // 0: each holder had all of it at its commit
	Time       status.Timestamp  `json:"time"`
	Manifest   checkpoint.Hash   `json:"manifest"`
	Head       bool              `json:"head"`
	Resume     bool              `json:"resume"` // the newest world started from it
}

// Checkpoints lists the commits of a job, the newest first.
func Checkpoints(s *rendezvous.Snapshot) []Checkpoint {
	all := []Checkpoint{}
	for _, h := range slices.Backward(s.History) {
		all = append(all, CheckpointOf(s, h))
	}
	return all
}

// CheckpointOf describes one commit.
func CheckpointOf(s *rendezvous.Snapshot, h checkpoint.Head) Checkpoint {
	here, away := HoldersOf(s, h)
	names := []string{}
	for _, r := range here {
		names = append(names, r.Node)
	}
	w := s.World
	return Checkpoint{Number: h.Number, Step: h.Step, Samples: h.Samples, Generation: h.Generation,
		WorldSize: worldSize(s.Events, h.Generation), Bytes: h.Bytes, Holders: names,
		Away: append([]string{}, away...), Copies: h.Copies, Parts: len(h.Parts),
		Time: status.Timestamp{Time: h.Time}, Manifest: h.Manifest, Head: h.Number == s.Head.Number,
		Resume: w != nil && w.Resume != nil && w.Resume.Number == h.Number}
}

// HoldersOf returns the nodes that have a checkpoint: those that are registered, and the others. The
// inventory of a node decides if it is newer than the commit.
func HoldersOf(s *rendezvous.Snapshot, h checkpoint.Head) (here []membership.Ref, away []string) {
	names := map[string]bool{}
	for _, r := range h.Holders {
		names[r.Node] = true
	}
	for name, inventory := range s.Held {
		has := slices.Contains(inventory.Numbers, h.Number)
		if has || h.Parts == nil && inventory.Rev > h.Rev {
			names[name] = has
		}
	}
	for name, has := range names {
		switch n := s.Node(name); {
		case has && n != nil:
			here = append(here, n.Ref)
		case has:
			away = append(away, name)
		}
	}
	slices.SortFunc(here, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(away)
	return here, away
}

// worldSize returns the size of the world of a generation; nil if its event was removed.
func worldSize(events []history.Event, g schema.Generation) *int {
	for i := range slices.Backward(events) {
		e := &events[i]
		if e.Kind == history.WorldProposed && e.Generation == g {
			return history.Field[*int](e, "world_size")
		}
	}
	return nil
}
