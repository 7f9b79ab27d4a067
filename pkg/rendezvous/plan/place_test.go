package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/membership"
)

// A node with a fixed rank has it in every World, whatever its name, whichever node had the rank
// before, and wherever the checkpoint is.
func TestPlaces(t *testing.T) {
	node := func(name string, place int) membership.Node {
		return membership.Node{Ref: membership.Ref{Node: name,
			Incarnation: membership.Incarnation("of-" + name)},
			Place: place}
	}
	last := []membership.Ref{node("b", 0).Ref, node("a", 0).Ref}
	for name, c := range map[string]struct {
		old  []membership.Ref
		from []membership.Node
		n    int
		want []string
	}{
		"against the order of names": {nil, []membership.Node{node("a", 2), node("b", 1)}, 2,
			[]string{"b", "a"}},
		"one is given, one is not": {nil, []membership.Node{node("a", 0), node("b", 1)}, 2,
			[]string{"b", "a"}},
		"against the last world": {last, []membership.Node{node("a", 1), node("b", 2)}, 2,
			[]string{"a", "b"}},
		"beyond the world":   {nil, []membership.Node{node("a", 9), node("b", 0)}, 2, []string{"a", "b"}},
		"two of one rank":    {nil, []membership.Node{node("a", 2), node("b", 2)}, 2, []string{"b", "a"}},
		"no holder is known": {last, []membership.Node{node("a", 0), node("b", 0)}, 2, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			holds := func(n string) bool {
				return n == c.want[1] || c.from[0].Place+c.from[1].Place == 0 || c.from[0].Place == 9
			}
			var got []string
			for _, r := range rankNodes(c.old, c.from, c.n, holds) {
				got = append(got, r.Node)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}
