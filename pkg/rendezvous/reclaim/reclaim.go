// Package reclaim decides what is made of the claims to a job for which the store is behind:
// whether it may be made again, from which checkpoint, and for which nodes it waits
// (docs/PROTOCOL.md, section 10). It is pure.
package reclaim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Verdict is how to go on with a job that the store has lost.
type Verdict struct {
	Remake  *Remake  // it may be made again now
	Missing []string // else: the nodes that are waited for; empty: any node that may know more
	// and the commit that only they have, for which they are waited for however long it takes
	Holds *checkpoint.Head
	Other schema.UID // or: others claim another job of that name, which comes before this one
}

// Wait names the nodes that a claiming node waits for.
type Wait int

const (
	ForAll    Wait = iota // every node that may know more
	ForEnough             // enough time has passed for nodes that are only slow
)

// Decide returns, for a node that claims the job uid, how to go on with it. The same claims give
// the same verdict on every node.
//
// The job may be made again when every member and spare of the newest World that is known, and
// every holder of the newest commit that is known, has claimed and looked at its disk since: a
// newer commit is then on none of them, because none passes while there is a claim. A spare may
// have gone on where all members died. With ForEnough every member is enough, or so many of them
// that fewer members and spares are missing than every commit has copies; but members and spares
// are waited for without a limit where no claimant lived in that World until the store was lost:
// a missing node may have gone on with nodes that the claimants never heard of. So is a commit
// that is known of, and that only a missing node has.
func Decide(claims []rendezvous.Claim, uid schema.UID, wait Wait) Verdict {
	chosen := newestJob(claims)
	if chosen != uid {
		return Verdict{Other: chosen}
	}
	claims = joined(claims)
	mine := family(claims, uid)
	known := newestKnown(mine) // also to nodes that are still looking at their disks
	mine = slices.DeleteFunc(mine, func(c rendezvous.Claim) bool { return !c.Looked })
	if len(mine) == 0 {
		return Verdict{}
	}
	last := mine[len(mine)-1]
	if last.World == 0 { // they came after the job was made again, and heard of no World since
		last.Members, last.Count = last.Job.Claimants, len(last.Job.Claimants)
	}
	missing := absent(mine, last)
	best := newestOf(mine, last.World)
	away := absentHolders(mine, known)
	// Where there was a commit the job never begins from scratch.
	if len(away) > 0 && (best == nil || best.Number < known.Number) || best == nil && known.Number > 0 {
		return Verdict{Missing: sorted(away, missing), Holds: &known}
	}
	if last.World == 0 && wait == ForAll {
		return Verdict{} // they joined before the first World, or never heard of it: others may know more
	}
	copies := min(certain, last.Job.Rules.Replicas, last.Count)
	spares := absentSpares(last, mine)
	switch all := sorted(missing, spares, away); {
	case wait == ForAll && len(all) > 0:
		return Verdict{Missing: all}
	case len(missing) > 0 && len(missing)+len(spares) >= copies,
		len(missing)+len(spares) > 0 && !lived(mine, last.World):
		return Verdict{Missing: sorted(missing, spares)}
	}
	return Verdict{Remake: remake(claims, mine, missing, best)}
}

// certain is how many copies every commit has at least, where there are nodes for them.
const certain = 2

// lived reports whether a claimant was in World g when the store was lost.
func lived(mine []rendezvous.Claim, g schema.Generation) bool {
	return slices.ContainsFunc(mine, func(c rendezvous.Claim) bool { return c.Lived && c.World == g })
}

// absent are the members of the newest World that have not claimed.
func absent(mine []rendezvous.Claim, last rendezvous.Claim) (missing []string) {
	if len(last.Members) > 0 {
		for _, m := range last.Members {
			if !claimedBy(mine, m) {
				missing = append(missing, m)
			}
		}
		slices.Sort(missing)
		return missing
	}
	here := map[int]bool{}
	for _, c := range mine {
		here[c.Rank] = here[c.Rank] || c.World == last.World
	}
	for rank := range last.Count { // none of its first ranks is here: the names are not known
		if !here[rank] {
			missing = append(missing, fmt.Sprintf("node rank %d", rank))
		}
	}
	return missing
}

// absentSpares are the spares of the newest World that have not claimed: a copy of a commit may be
// there.
func absentSpares(c rendezvous.Claim, mine []rendezvous.Claim) (missing []string) {
	for _, node := range c.Spares {
		if !claimedBy(mine, node) && !slices.Contains(c.Members, node) {
			missing = append(missing, node)
		}
	}
	return missing
}

// absentHolders are the nodes with a copy of head that have not claimed.
func absentHolders(mine []rendezvous.Claim, head checkpoint.Head) (missing []string) {
	for _, h := range head.Holders {
		if !claimedBy(mine, h.Node) {
			missing = append(missing, h.Node)
		}
	}
	return missing
}

// sorted are the names, each once.
func sorted(names ...[]string) []string {
	all := slices.Concat(names...)
	slices.Sort(all)
	return slices.Compact(all)
}

func claimedBy(claims []rendezvous.Claim, node string) bool {
	return slices.ContainsFunc(claims, func(c rendezvous.Claim) bool { return c.Node == node })
}

// newestOf is the newest checkpoint that one of them found whole; g is the generation of the newest
// World. A copy whose commit its node did not hear of has a number that is too low, so the captures of g
// are in the order in which they were made: all that came after g began is of g.
func newestOf(claims []rendezvous.Claim, g schema.Generation) *checkpoint.Head {
	var best rendezvous.Claim
	for _, c := range claims {
		if c.Newest == nil {
			continue
		}
		order := -1
		if b := best.Newest; b != nil {
			if order = compare(*b, *c.Newest); b.Generation == g && c.Newest.Generation == g &&
				best.Sequence > 0 && c.Sequence > 0 {
				order = cmp.Or(cmp.Compare(best.Sequence, c.Sequence), order)
			}
		}
		if order < 0 {
			best = c
		}
	}
	return best.Newest
}

// compare orders checkpoints by their age: by number, and of one number what was only captured comes
// before what was committed.
func compare(a, b checkpoint.Head) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(min(a.Copies, 1), min(b.Copies, 1)),
		a.Time.Compare(b.Time))
}

func newestKnown(claims []rendezvous.Claim) (known checkpoint.Head) {
	for _, c := range claims {
		if c.Known.Number > known.Number {
			known = c.Known
		}
	}
	return known
}
