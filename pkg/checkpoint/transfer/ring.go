package transfer

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// Ring chooses n nodes for copies of self's part. members are in the order of their ranks. The
// copies are on different machines if there are enough: on the machines after that of self. On each
// of them it chooses the node with self's index on its own machine, so that equal machines get the
// same number of parts. If the members are on too few machines, it uses others too. Ring is pure.
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

// byMachine groups nodes by machine, in the order of each machine's first node.
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
