package plan

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// rankNodes picks n of the candidates, which are sorted by name, and ranks them. Survivors keep
// their rank if it still exists. A node that returns, or a spare, gets the rank of a lost node.
// Rank 0 goes to a holder of the newest checkpoint. A node with a fixed rank gets that rank even if
// another node had it before; in that case rank 0 may have to fetch the checkpoint.
func rankNodes(
	old []membership.Ref, from []membership.Node, n int, holds func(node string) bool,
) []membership.Ref {
	ranks := make([]*membership.Ref, n)
	pool := make(map[string]*membership.Ref, len(from)) // candidates without a rank
	for i := range from {
		pool[from[i].Node] = &from[i].Ref
	}
	take := func(r *membership.Ref, rank int) {
		ranks[rank] = r
		delete(pool, r.Node)
	}
	placed := false
	for i := range from {
		if rank := from[i].Place - 1; rank >= 0 && rank < n && ranks[rank] == nil {
			placed = true
			take(&from[i].Ref, rank)
		}
	}
	for rank, o := range old[:min(n, len(old))] { // the same incarnation, else a new one of the same node
		if ranks[rank] != nil {
			continue
		}
		if r := pool[o.Node]; r != nil {
			take(r, rank)
		}
	}
	var others []*membership.Ref // survivors whose rank no longer exists, in order; then the rest
	survivors := map[membership.Incarnation]bool{}
	for _, o := range old[min(n, len(old)):] {
		if r := pool[o.Node]; r != nil && r.Same(o) {
			others, survivors[o.Incarnation] = append(others, r), true
		}
	}
	for i := range from {
		if r := pool[from[i].Node]; r != nil && !survivors[r.Incarnation] {
			others = append(others, r)
		}
	}
	for rank := range ranks {
		if ranks[rank] == nil {
			take(others[0], rank)
			others = others[1:]
		}
	}
	if !placed {
		swapHolderFirst(ranks, rendezvous.NewRefSet(old), others, holds)
	}
	out := make([]membership.Ref, n)
	for i, r := range ranks {
		out[i] = *r
	}
	return out
}

// swapHolderFirst swaps a holder to rank 0, if there is one. It prefers the holder of the lowest
// rank. If no ranked node holds the checkpoint, it takes a holder from others, where survivors come
// first. That holder gets rank 0 if a newcomer has it, else the highest rank of a newcomer. Only if
// there is no newcomer does it replace a survivor.
func swapHolderFirst(
	ranks []*membership.Ref, old rendezvous.RefSet, others []*membership.Ref, holds func(string) bool,
) {
	holder := func(r *membership.Ref) bool { return holds(r.Node) }
	at := slices.IndexFunc(ranks, holder)
	if at < 0 {
		i := slices.IndexFunc(others, holder)
		if i < 0 {
			return
		}
		at = len(ranks) - 1
		for rank := range ranks {
			if !old.Has(*ranks[rank]) {
				at = rank
			}
			if at == 0 {
				break
			}
		}
		ranks[at] = others[i]
	}
	ranks[0], ranks[at] = ranks[at], ranks[0]
}

// candidates returns the nodes that the next World may have, by name. They are registered in this
// attempt, not gone, not drained, and not in quarantine.
func candidates(s *rendezvous.Snapshot, v verdict.View) []membership.Node {
	c := make([]membership.Node, 0, len(s.Nodes))
	may := mayTake(s, v)
	for i := range s.Nodes {
		if may(&s.Nodes[i]) {
			c = append(c, s.Nodes[i])
		}
	}
	return c
}

// mayTake returns a function that reports whether a node is a candidate.
func mayTake(s *rendezvous.Snapshot, v verdict.View) func(*membership.Node) bool {
	fits, out := fit(s, v), keptOut(s, dispensable)
	may := func(n *membership.Node) bool { return fits(n) && !warming(s, n) && !out(n) }
	// a candidate whose workers still start is better than no World
	if count(s.Nodes, may) < s.Least() {
		may = func(n *membership.Node) bool { return fits(n) && !out(n) }
	}
	if count(s.Nodes, may) < s.Least() { // a node that was late or lost before is better than no World
		out := keptOut(s, needed)
		may = func(n *membership.Node) bool { return fits(n) && !out(n) }
	}
	return may
}

// count returns how many nodes satisfy is.
func count(nodes []membership.Node, is func(*membership.Node) bool) (k int) {
	for i := range nodes {
		if is(&nodes[i]) {
			k++
		}
	}
	return k
}

// warming reports whether a world with n would wait for workers that n still starts. It is false
// for a member, because a world never goes on without a member for that reason.
func warming(s *rendezvous.Snapshot, n *membership.Node) bool {
	return n.Warming && s.World != nil && s.World.Rank(n.Ref) < 0
}

// fit returns a function that reports whether a node is not gone, is of this attempt, and is not
// drained.
func fit(s *rendezvous.Snapshot, v verdict.View) func(*membership.Node) bool {
	drained := rendezvous.SetOf(s.Wish.Drain)
	var reported map[membership.Incarnation]bool
	if s.World != nil {
		reported = rendezvous.SetOf(s.World.ReportedLost)
	}
	return func(n *membership.Node) bool {
		if n.Attempt != s.Job.Attempt || drained[n.Node] {
			return false
		}
		seen := v.Find(n.Ref)
		// A node that was reported lost counts again after it answered.
		return seen == nil ||
			seen.State != verdict.Gone && (seen.State != verdict.Suspect || !reported[n.Incarnation])
	}
}

// Shortage returns how many nodes may be in a World now, how many the operator asked for, and how
// many more a World needs.
func Shortage(s *rendezvous.Snapshot, v verdict.View) (present, wished, missing int) {
	n := Present(s, v)
	return n, s.Wish.NP, max(0, s.Least()-n)
}

// Size is the number of nodes that a World proposed now would have.
func Size(s *rendezvous.Snapshot, v verdict.View) int {
	n := Present(s, v)
	return min(n, s.Target(n))
}

// Present is the number of nodes that may be in a World now.
func Present(s *rendezvous.Snapshot, v verdict.View) int { return count(s.Nodes, mayTake(s, v)) }

// Batch returns the batch and rate plan for n nodes.
func Batch(s *rendezvous.Snapshot, n int) (*scaling.Plan, error) {
	return scaling.For(s.Job.Base, s.Job.Workers(n))
}
