package plan

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// arrange picks n of the candidates, which are sorted by name, and ranks them: survivors keep their
// rank where it still exists, a node that comes back or a spare takes the place of one that is
// lost, and rank 0 goes to a node that holds the newest checkpoint. A node with a fixed rank gets
// that rank even if another node had it before, and then rank 0 fetches the checkpoint if it has
// none.
func arrange(
	old []membership.Ref, from []membership.Node, n int, holds func(node string) bool,
) []membership.Ref {
	ranks := make([]*membership.Ref, n)
	pool := make(map[string]*membership.Ref, len(from)) // those without a rank
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
	for rank, o := range old[:min(n, len(old))] { // the same life, else a new life of the same node
		if ranks[rank] != nil {
			continue
		}
		if r := pool[o.Node]; r != nil {
			take(r, rank)
		}
	}
	var others []*membership.Ref // survivors of ranks that are gone, in order, then the rest
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
		first(ranks, rendezvous.NewRefSet(old), others, holds)
	}
	out := make([]membership.Ref, n)
	for i, r := range ranks {
		out[i] = *r
	}
	return out
}

// first puts a holder at rank 0, if there is one: the ranked holder of the lowest rank, else one
// that was left over, a survivor before the others. A left-over holder takes the place of a
// newcomer, at rank 0 or else the highest: a survivor stays in the world as long as another node
// can make room.
func first(
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

// candidates are the nodes that a next World may have: registered in this attempt, not gone, not
// asked to go, not in quarantine. In the order of their names.
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
	// a candidate whose workers are not there yet is better than no World
	if count(s.Nodes, may) < s.Least() {
		may = func(n *membership.Node) bool { return fits(n) && !out(n) }
	}
	if count(s.Nodes, may) < s.Least() { // better one that was late or lost before than no World
		out := keptOut(s, needed)
		may = func(n *membership.Node) bool { return fits(n) && !out(n) }
	}
	return may
}

func count(nodes []membership.Node, is func(*membership.Node) bool) (k int) {
	for i := range nodes {
		if is(&nodes[i]) {
			k++
		}
	}
	return k
}

// warming reports whether a world with n would wait for workers that n still starts. It is false
// for a member: a world never goes on without a member because its workers start.
func warming(s *rendezvous.Snapshot, n *membership.Node) bool {
	return n.Warming && s.World != nil && s.World.Rank(n.Ref) < 0
}

// fit returns a function that reports whether a node is here, is of this attempt, and is not asked
// to go.
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
		// a node that was reported lost is not here before it answers again
		return seen == nil ||
			seen.State != verdict.Gone && (seen.State != verdict.Suspect || !reported[n.Incarnation])
	}
}

// Shortage says how many nodes are here that a World may have, how many are wished, and how many
// are missing for there to be one.
func Shortage(s *rendezvous.Snapshot, v verdict.View) (present, wished, missing int) {
	n := Present(s, v)
	return n, s.Wish.NP, max(0, s.Least()-n)
}

// Size is the number of nodes that a World would have now.
func Size(s *rendezvous.Snapshot, v verdict.View) int {
	n := Present(s, v)
	return min(n, s.Target(n))
}

// Present is the number of nodes here that a World may have.
func Present(s *rendezvous.Snapshot, v verdict.View) int { return count(s.Nodes, mayTake(s, v)) }

// Batch is the batch and rate plan for n nodes.
func Batch(s *rendezvous.Snapshot, n int) (*scaling.Plan, error) {
	return scaling.For(s.Job.Base, s.Job.Workers(n))
}
