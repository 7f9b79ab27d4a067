package rendezvous

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// least and target are how many nodes a World needs, and how many are wished.
func (s *Snapshot) least() int {
	if s.Job.Limits.Exact {
		return s.Wish.NP
	}
	return s.Job.Limits.Min
}

func (s *Snapshot) target() int { return s.Wish.NP }

// candidates are the nodes that a next World may have: registered in this attempt, not gone, not
// asked to go, not in quarantine. In the order of their names.
func candidates(s *Snapshot, v membership.View) []membership.Node {
	c := fit(s, v, quarantined)
	if len(c) < s.least() { // better one that was late before than no World: no generation could pass to free it
		c = fit(s, v, func(*World, string) bool { return false })
	}
	return c
}

func fit(s *Snapshot, v membership.View, out func(*World, string) bool) []membership.Node {
	var c []membership.Node
	for _, n := range s.Nodes {
		if n.Attempt != s.Job.Attempt || slices.Contains(s.Wish.Drain, n.Node) || out(s.World, n.Node) {
			continue
		}
		if seen := v.Find(n.Ref); seen != nil && (seen.State == membership.Gone ||
			seen.State == membership.Suspect && slices.Contains(s.World.Told, n.Incarnation)) {
			continue // also who was found gone by another, as long as it does not answer
		}
		c = append(c, n)
	}
	return c
}

func quarantined(w *World, node string) bool {
	if w == nil {
		return false
	}
	for _, q := range w.Quarantine {
		if q.Node == node && q.Until > w.Generation {
			return true
		}
	}
	return false
}

// arrange picks n of the candidates and ranks them: survivors keep their rank where it still
// exists, a node that comes back or a spare takes the place of one that is lost, and rank 0
// goes to a node that holds the newest checkpoint.
func arrange(old []membership.Ref, from []membership.Node, n int, holds func(node string) bool) []membership.Ref {
	ranks := make([]*membership.Ref, n)
	pool := slices.Clone(from)
	take := func(i, rank int) {
		r := pool[i].Ref
		ranks[rank] = &r
		pool = slices.Delete(pool, i, i+1)
	}
	find := func(match func(membership.Ref) bool) int {
		return slices.IndexFunc(pool, func(c membership.Node) bool { return match(c.Ref) })
	}
	for rank, o := range old { // the same life, then a new life of the same node
		if rank < n {
			if i := find(o.Same); i >= 0 {
				take(i, rank)
			}
		}
	}
	for rank, o := range old {
		if rank < n && ranks[rank] == nil {
			if i := find(func(r membership.Ref) bool { return r.Node == o.Node && index(old, r) < 0 }); i >= 0 {
				take(i, rank)
			}
		}
	}
	for rank := range ranks { // survivors of ranks that are no more, in their order, then anybody
		if ranks[rank] != nil {
			continue
		}
		i := -1
		for _, o := range old[min(n, len(old)):] {
			if i = find(o.Same); i >= 0 {
				break
			}
		}
		take(max(i, 0), rank)
	}
	first(ranks, old, pool, holds)
	out := make([]membership.Ref, n)
	for i, r := range ranks {
		out[i] = *r
	}
	return out
}

// first puts a holder at rank 0, if there is one: of those who are ranked the lowest, else one that
// was left over. That one takes the place of a newcomer, at rank 0 or else the highest: a survivor
// stays in the world as long as anybody else can make room.
func first(ranks []*membership.Ref, old []membership.Ref, pool []membership.Node, holds func(string) bool) {
	holder := func(r membership.Ref) bool { return holds(r.Node) }
	at := slices.IndexFunc(ranks, func(r *membership.Ref) bool { return holder(*r) })
	if at < 0 {
		r := leftOver(old, pool, holder)
		if r == nil {
			return
		}
		at = len(ranks) - 1
		for rank := range ranks {
			if index(old, *ranks[rank]) < 0 {
				at = rank
			}
			if at == 0 {
				break
			}
		}
		ranks[at] = r
	}
	ranks[0], ranks[at] = ranks[at], ranks[0]
}

// leftOver is who of the pool holds the newest checkpoint: a survivor of a rank that is no more before
// the others.
func leftOver(old []membership.Ref, pool []membership.Node, holder func(membership.Ref) bool) *membership.Ref {
	var found *membership.Ref
	for _, c := range pool {
		if r := c.Ref; holder(r) && (found == nil || index(old, *found) < 0 && index(old, r) >= 0) {
			found = &r
		}
	}
	return found
}

// holds says whether a node has the head on its disk, as far as is known: by its own word, else
// by the record, which is newer than what the node said before the commit. Without any checkpoint every node is as good as another.
func (s *Snapshot) holds(node string) bool {
	if s.Head.Number == 0 {
		return true
	}
	if have, ok := s.Held[node]; ok && (have.Rev > s.Head.Rev || slices.Contains(have.Numbers, s.Head.Number)) {
		return slices.Contains(have.Numbers, s.Head.Number)
	}
	return s.Head.HeldBy(node)
}

// Shortage says how many nodes are here that a World may have, how many are wished, and how many are
// missing for there to be one.
func Shortage(s *Snapshot, v membership.View) (present, wished, missing int) {
	present = len(candidates(s, v))
	return present, s.target(), max(0, s.least()-present)
}
