package pipeline

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// registered returns self and the holders whose incarnation is still registered, as registered now.
func registered(nodes, holders []membership.Node, self string) (now []membership.Node) {
	for _, n := range nodes {
		if n.Node == self {
			now = append(now, n)
		}
	}
	if now == nil {
		return nil
	}
	for _, n := range nodes {
		if n.Node != self && has(holders, n) {
			now = append(now, n)
		}
	}
	return now
}

// has reports whether n, as the same incarnation, is among nodes.
func has(nodes []membership.Node, n membership.Node) bool {
	return slices.ContainsFunc(nodes, func(o membership.Node) bool { return o.Same(n.Ref) })
}

// enough reports whether the holders survive the loss of any one machine, as far as the nodes and
// the number of copies allow. It is pure.
func enough(nodes, holders []membership.Node, replicas int) bool {
	machines := func(nodes []membership.Node) int {
		m := map[string]bool{}
		for _, n := range nodes {
			m[n.Machine] = true
		}
		return len(m)
	}
	need := min(2, replicas)
	return len(holders) >= min(need, len(nodes)) && machines(holders) >= min(need, machines(nodes))
}
