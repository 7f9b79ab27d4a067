package overview

import (
	"slices"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// agree ends the bars as the status says, because what is seen now may have no event yet.
func (w *walk) agree(st status.Status, now Millis) {
	listed := map[string]bool{}
	for _, n := range st.Nodes {
		walked := w.of(n.Node)
		listed[n.Node] = true
		p := live(n.State, walked.phase)
		if p == walked.phase {
			continue
		}
		at := min(max(millis(n.Since.Time), lastTurn(walked)), now)
		w.put(walked, p, at)
	}
	for name, n := range w.nodes {
		if !listed[name] && n.phase != away {
			w.put(n, away, now)
		}
	}
}

// lastTurn returns when the newest bar of a node began or ended.
func lastTurn(n *nodeWalk) Millis {
	if len(n.bars) == 0 {
		return 0
	}
	b := n.bars[len(n.bars)-1]
	return max(b.From, b.To)
}

// phases are those of the states that have one phase only.
var phases = map[status.NodeState]Phase{
	status.NodeLost: away, status.NodeLeft: away, status.NodeSuspect: Suspected,
	status.NodeQuarantined: Quarantined, status.NodeSpare: Spare, status.NodeRunning: Training,
	status.NodeReady: Starting, status.NodeDraining: Saving,
}

// live returns the phase of a node in that state.
func live(s status.NodeState, walked Phase) Phase {
	if p, ok := phases[s]; ok {
		return p
	}
	if walked == away || walked == Training || walked == Suspected {
		return Waiting
	}
	return walked
}

// sortedNodes returns the names of all nodes: the members by rank, then the others.
func (w *walk) sortedNodes(st status.Status) []string {
	var names []string
	seen := map[string]bool{}
	for _, n := range st.Nodes {
		if w.nodes[n.Node] != nil && !seen[n.Node] {
			names, seen[n.Node] = append(names, n.Node), true
		}
	}
	var rest []string
	for name := range w.nodes {
		if !seen[name] {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}
