package transfer

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// Ring picks n nodes for copies of the part of the node self. members are in the order of their
// ranks. Each copy is on another machine than the others as long as there are enough: on the next
// machines after that of self, and there on the node that has the same place on its machine, so
// that machines of the same number of nodes take the same number of parts. Where the members are on
// too few machines, the others count as well. Pure.
func Ring(members, others []membership.Node, self string, n int) []membership.Node {
	machines := byMachine(members)
	if len(machines) <= n {
		machines = byMachine(slices.Concat(members, others))
	}
	home, place := -1, 0
	for i, nodes := range machines {
		at := slices.IndexFunc(nodes, func(x membership.Node) bool { return x.Node == self })
		if at >= 0 {
			home, place = i, at
		}
	}
	if home < 0 {
		return nil
	}
	var picked []membership.Node
	for k := 1; k < len(machines) && len(picked) < n; k++ {
		nodes := machines[(home+k)%len(machines)]
		picked = append(picked, nodes[place%len(nodes)])
	}
	all := slices.Concat(machines...)
	at := slices.IndexFunc(all, func(x membership.Node) bool { return x.Node == self })
	for k := 1; k < len(all) && len(picked) < n; k++ {
		next := all[(at+k)%len(all)]
		if !slices.ContainsFunc(picked, func(x membership.Node) bool { return x.Node == next.Node }) {
			picked = append(picked, next)
		}
	}
	return picked
}

// byMachine are the nodes of each machine, the machines in the order of their first node.
func byMachine(nodes []membership.Node) (machines [][]membership.Node) {
	at := map[string]int{}
	for _, x := range nodes {
		i, known := at[x.Machine]
		if !known {
			i = len(machines)
			at[x.Machine], machines = i, append(machines, nil)
		}
		machines[i] = append(machines[i], x)
	}
	return machines
}
