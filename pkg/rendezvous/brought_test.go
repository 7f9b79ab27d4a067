package rendezvous_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// The newest checkpoint counts that is complete on registered nodes: by generation, then by its place in
// it, whatever its time is.
func TestNewestBrought(t *testing.T) {
	at := func(node string, g schema.Generation, sequence uint64) rendezvous.Brought {
		head := checkpoint.Head{Number: checkpoint.Number(10 - sequence), Generation: g,
			Manifest: checkpoint.Hash{byte(g), byte(sequence)}}
		return rendezvous.Brought{From: "u", Copy: checkpoint.Copy{Node: node, Sequence: sequence, Head: head}}
	}
	parts := func(node string, has ...byte) rendezvous.Brought {
		b := at(node, 9, 1)
		for _, p := range []byte{1, 2} {
			b.Head.Parts = append(b.Head.Parts, checkpoint.HeldPart{Manifest: checkpoint.Hash{p}})
		}
		for _, p := range has {
			b.Has = append(b.Has, checkpoint.Hash{p})
		}
		return b
	}
	for name, c := range map[string]struct {
		brought []rendezvous.Brought
		want    checkpoint.Hash
		holders int
	}{
		"none":                {nil, checkpoint.Hash{}, 0},
		"by generation":       {[]rendezvous.Brought{at("a", 2, 9), at("b", 3, 1)}, checkpoint.Hash{3, 1}, 1},
		"by place":            {[]rendezvous.Brought{at("a", 3, 2), at("b", 3, 1)}, checkpoint.Hash{3, 2}, 1},
		"the same on two":     {[]rendezvous.Brought{at("a", 3, 2), at("b", 3, 2)}, checkpoint.Hash{3, 2}, 2},
		"of a node away":      {[]rendezvous.Brought{at("a", 2, 1), at("z", 3, 1)}, checkpoint.Hash{2, 1}, 1},
		"all parts together":  {[]rendezvous.Brought{parts("a", 1), parts("b", 2)}, checkpoint.Hash{9, 1}, 2},
		"one part is missing": {[]rendezvous.Brought{parts("a", 1), at("b", 2, 1)}, checkpoint.Hash{2, 1}, 1},
	} {
		s := rendezvous.Snapshot{Brought: c.brought}
		for _, n := range []string{"a", "b"} {
			s.Nodes = append(s.Nodes, membership.Node{Ref: membership.Ref{Node: n}})
		}
		h, _ := s.NewestBrought()
		if h == nil {
			h = &checkpoint.Head{}
		}
		if h.Manifest != c.want || len(h.Holders) != c.holders {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
