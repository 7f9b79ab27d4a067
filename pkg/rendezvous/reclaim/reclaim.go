// Package reclaim decides, from the claims to a job for which the store is behind, whether the job
// may be made again, from which checkpoint, and for which nodes it waits (docs/PROTOCOL.md, section
// 10). It is pure.
package reclaim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Verdict is the decision about a job that the store has lost. At most one of Remake, Missing and
// Other is set. If none is, the claimants wait for any node that may know more.
type Verdict struct {
	Remake  *Remake  // how to make the job again, now
	Missing []string // the nodes that are waited for
	// Blank are those of Missing that are here, in a job of that name that never ran: their disks are lost,
	// or they came before the nodes of this job.
	Blank []string
	// Holds is the commit that only the missing nodes have. There is no limit to the wait for it.
	// If Missing is empty, no node is known to have it.
	Holds *checkpoint.Head
	Other schema.UID // the uid of another claimed job of that name, which comes before this one
}

// Wait says for which nodes a claimant waits.
type Wait int

const (
	ForAll    Wait = iota // every node that may know more
	ForEnough             // enough time has passed for nodes that are only slow
)

// Decide decides how a node that claims the job uid goes on. The same claims give the same verdict
// on every node.
//
// With ForAll, the job may be made again when three groups have claimed and looked at their disks
// since: the members of the newest known World, its spares, and the holders of the newest known
// commit. No node has a newer commit then, because the store accepts no commit while there is a
// claim. Spares count because they may have gone on after all members died.
//
// With ForEnough, all members are enough. So are fewer, as long as the missing members and spares
// are fewer than the copies that every commit has. There are two exceptions without a limit. Where
// no claimant lived in that World until the store was lost, every member and spare is waited for: a
// missing node may have gone on with nodes of which the claimants never heard. And a known commit
// that only missing nodes have is always waited for.
func Decide(claims []rendezvous.Claim, uid schema.UID, wait Wait) Verdict {
	v := verdictOn(claims, uid, wait)
	for _, c := range claims {
		if c.Job.UID != uid && !c.Ran() && slices.Contains(v.Missing, c.Node) {
			v.Blank = append(v.Blank, c.Node)
		}
	}
	return v
}

// verdictOn is Decide without Blank.
func verdictOn(claims []rendezvous.Claim, uid schema.UID, wait Wait) Verdict {
	chosen := newestJob(claims)
	if chosen != uid {
		return Verdict{Other: chosen}
	}
	mine := claimsOf(claims, uid)
	known := newestKnown(mine) // also by nodes that have not yet looked at their disks
	mine = slices.DeleteFunc(mine, func(c rendezvous.Claim) bool { return !c.Looked })
	if len(mine) == 0 {
		return Verdict{}
	}
	last := mine[len(mine)-1]
	if last.World == 0 { // all claimants came after the job was made again, and heard of no World since
		last.Members, last.Count = last.Job.Claimants, len(last.Job.Claimants)
	}
	here := withGivenUp(claims, mine)
	missing := absentMembers(here, last)
	var best *checkpoint.Head
	if c := newestOf(mine, last); c != nil {
		best = c.Newest
	}
	gone := absentHolders(mine, known)
	// A job that had a commit never begins from scratch.
	if len(gone) > 0 && (best == nil || best.Before(known)) || best == nil && known.Number > 0 {
		return Verdict{Missing: sorted(gone, missing), Holds: &known}
	}
	if last.World == 0 && wait == ForAll && !lived(mine, last) {
		return Verdict{} // the claimants know of no World: other nodes may know more
	}
	copies := min(minCopies, last.Job.Rules.Replicas, last.Count)
	spares := absentSpares(last, here)
	switch all := sorted(missing, spares, gone); {
	case wait == ForAll && len(all) > 0:
		return Verdict{Missing: all}
	case len(missing) > 0 && len(missing)+len(spares) >= copies,
		len(missing)+len(spares) > 0 && !lived(mine, last):
		return Verdict{Missing: sorted(missing, spares)}
	}
	return Verdict{Remake: remake(claims, mine, missing, best)}
}

// DecideNewest is Decide, with ForAll, for the claimed job that comes before the others.
func DecideNewest(claims []rendezvous.Claim) Verdict {
	return Decide(claims, newestJob(claims), ForAll)
}

// Claimants returns the nodes that claim that job. Others claim a job of the same name.
func Claimants(claims []rendezvous.Claim) (nodes []string) {
	for _, c := range claimsOf(claims, newestJob(claims)) {
		nodes = append(nodes, c.Node)
	}
	return sorted(nodes)
}

// minCopies is the number of copies that every commit has at least, if there are enough nodes.
const minCopies = 2

// lived reports whether a claimant was in the World of last when the store was lost.
func lived(mine []rendezvous.Claim, last rendezvous.Claim) bool {
	return slices.ContainsFunc(mine, func(c rendezvous.Claim) bool {
		return c.Lived && c.CompareWorlds(&last) == 0
	})
}

// withGivenUp returns mine and the nodes that gave up the job for another one, as claims that know
// nothing: they had no part in a World of it that went on, so no one waits for them.
func withGivenUp(claims, mine []rendezvous.Claim) []rendezvous.Claim {
	all, u := slices.Clone(mine), mine[len(mine)-1].Job.UID
	for _, c := range claims {
		if slices.Contains(c.GaveUp, u) {
			all = append(all, rendezvous.Claim{Node: c.Node, Rank: -1})
		}
	}
	return all
}

// absentMembers returns the members of the newest World that have not claimed.
func absentMembers(mine []rendezvous.Claim, last rendezvous.Claim) (missing []string) {
	if len(last.Members) > 0 {
		for _, m := range last.Members {
			if !claimedBy(mine, m) {
				missing = append(missing, m)
			}
		}
		slices.Sort(missing)
		return missing
	}
	claimed := map[int]bool{}
	for _, c := range mine {
		claimed[c.Rank] = claimed[c.Rank] || c.CompareWorlds(&last) == 0
	}
	for rank := range last.Count { // no first rank of that World has claimed, so the names are not known
		if !claimed[rank] {
			missing = append(missing, fmt.Sprintf("node rank %d", rank))
		}
	}
	return missing
}

// absentSpares returns the spares of the newest World that have not claimed. A spare may have a
// copy of a commit.
func absentSpares(c rendezvous.Claim, mine []rendezvous.Claim) (missing []string) {
	for _, node := range c.Spares {
		if !claimedBy(mine, node) && !slices.Contains(c.Members, node) {
			missing = append(missing, node)
		}
	}
	return missing
}

// absentHolders returns the holders of head that have not claimed.
func absentHolders(mine []rendezvous.Claim, head checkpoint.Head) (missing []string) {
	for _, h := range head.Holders {
		if !claimedBy(mine, h.Node) {
			missing = append(missing, h.Node)
		}
	}
	return missing
}

// sorted returns the names in order, each once.
func sorted(names ...[]string) []string {
	all := slices.Concat(names...)
	slices.Sort(all)
	return slices.Compact(all)
}

func claimedBy(claims []rendezvous.Claim, node string) bool {
	return slices.ContainsFunc(claims, func(c rendezvous.Claim) bool { return c.Node == node })
}

// newestOf returns the claim with the newest checkpoint that a claimant read and found whole, nil if
// there is none; last has the newest World. A node that did not hear of a commit gives its copy a
// number and an order that are too low. So such a copy is compared by its sequence with what else the
// workers of that World saved. If it is the newest, it gets a number and an order above the others.
func newestOf(claims []rendezvous.Claim, last rendezvous.Claim) (best *rendezvous.Claim) {
	saved := func(c *rendezvous.Claim) bool { // by workers of the newest World
		return c.Newest.Generation == last.World && c.Newest.Order >= last.WorldOrder && c.Sequence > 0
	}
	for i := range claims {
		c := &claims[i]
		switch {
		case c.Newest == nil:
		case best == nil:
			best = c
		case saved(best) && saved(c) && min(best.Newest.Copies, c.Newest.Copies) == 0 &&
			best.Sequence != c.Sequence:
			best = later(best, c)
		case compare(*best.Newest, *c.Newest) < 0:
			best = c
		}
	}
	return best
}

// later returns the claim with the larger sequence. Its checkpoint gets a number and an order above
// those of the other one.
func later(a, b *rendezvous.Claim) *rendezvous.Claim {
	if a.Sequence < b.Sequence {
		a, b = b, a
	}
	x, h := *a, *a.Newest
	h.Number, h.Order = max(h.Number, b.Newest.Number+1), max(h.Order, b.Newest.Order.After())
	x.Newest = &h
	return &x
}

// compare orders checkpoints by their commits. Of two that are equally new, the committed one is
// newer than the one that was only captured.
func compare(a, b checkpoint.Head) int {
	return cmp.Or(a.Compare(b), cmp.Compare(min(a.Copies, 1), min(b.Copies, 1)), a.Time.Compare(b.Time))
}

func newestKnown(claims []rendezvous.Claim) (known checkpoint.Head) {
	for _, c := range claims {
		if known.Before(c.Known) {
			known = c.Known
		}
	}
	return known
}
