package transfer

import (
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

func TestTargets(t *testing.T) {
	node := func(name, machine string) membership.Node {
		return membership.Node{Ref: membership.Ref{Node: name}, Machine: machine}
	}
	nodes := []membership.Node{node("a", "m1"), node("a2", "m1"), node("b", "m2"), node("b2", "m2"),
		node("c", "m3")}
	for _, c := range []struct {
		self string
		n    int
		late string
		want []string
	}{
		{"a", 1, "", []string{"b"}},
		{"a", 2, "", []string{"b", "c"}},
		{"a", 3, "", []string{"b", "c", "b2"}},
		{"a", 9, "", []string{"b", "c", "b2", "a2"}},
		{"c", 2, "", []string{"a", "b"}},
		{"a", 0, "", nil},
		{"new", 1, "", []string{"a"}},
		{"a", 1, "b", []string{"b2"}},
		{"a", 3, "b", []string{"b2", "c", "b"}},
		{"c", 2, "b b2", []string{"a", "b"}},
		{"a", 2, "b b2 c", []string{"b", "c"}},
	} {
		var got []string
		for _, n := range Targets(nodes, c.self, c.n, func(n membership.Node) bool {
			return slices.Contains(strings.Fields(c.late), n.Node)
		}) {
			got = append(got, n.Node)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %d, late %s: %v, want %v", c.self, c.n, c.late, got, c.want)
		}
	}
}
