package transfer

import (
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/membership"
)

// Targets picks n nodes for copies of what self has: first those on other
// machines, each machine once before any twice; the rest, down to nodes of the
// same machine, only when there is no better. Spares are as good as members.
// Pure: the same nodes give the same targets, whatever their order.
func Targets(nodes []membership.Node, self string, n int) []membership.Node {
	machine := ""
	var others []membership.Node
	for _, x := range nodes {
		if x.Node == self {
			machine = x.Machine
		} else {
			others = append(others, x)
		}
	}
	slices.SortFunc(others, func(a, b membership.Node) int { return strings.Compare(a.Node, b.Node) })
	// How often its machine was taken before orders the nodes; our own counts as taken from the
	// start.
	taken := map[string]int{machine: len(others)}
	rank := make(map[string]int, len(others))
	for _, x := range others {
		rank[x.Node] = taken[x.Machine]
		taken[x.Machine]++
	}
	slices.SortStableFunc(others, func(a, b membership.Node) int { return rank[a.Node] - rank[b.Node] })
	return others[:max(0, min(n, len(others)))]
}
