package transfer

import (
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/membership"
)

// Targets chooses n nodes for copies of self's checkpoint. It prefers nodes on other machines, and
// uses each machine once before it uses one twice. It uses nodes of self's machine only if there
// are no others, and late ones after others of their machine and of other machines. Spares count like
// members. Targets is pure, and does not depend on the order of nodes.
func Targets(
	nodes []membership.Node, self string, n int, late func(membership.Node) bool,
) []membership.Node {
	machine := ""
	var others []membership.Node
	for _, x := range nodes {
		if x.Node == self {
			machine = x.Machine
		} else {
			others = append(others, x)
		}
	}
	slices.SortFunc(others, func(a, b membership.Node) int {
		switch {
		case late(a) == late(b):
			return strings.Compare(a.Node, b.Node)
		case late(b):
			return -1
		}
		return 1
	})
	// Nodes are sorted by how often their machine was used before. The machine of self counts as
	// used most.
	taken := map[string]int{machine: len(others)}
	rank := make(map[string]int, len(others))
	for _, x := range others {
		rank[x.Node] = taken[x.Machine]
		taken[x.Machine]++
	}
	slices.SortStableFunc(others, func(a, b membership.Node) int { return rank[a.Node] - rank[b.Node] })
	return others[:max(0, min(n, len(others)))]
}
