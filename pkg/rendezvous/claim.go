package rendezvous

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Claim is what a node knows of a job for which the store is behind: what the job was, what the
// node saw of it, and what is on its disk. A job is made again from claims and from nothing else.
type Claim struct {
	Node       string            `json:"-"`
	Job        Job               `json:"job"` // as it was, under the uid that it had
	Wish       Wish              `json:"wish"`
	WishRev    int64             `json:"wish_rev"`          // when it was written, in the store that was lost
	Generation schema.Generation `json:"generation"`        // largest that the node saw
	World      schema.Generation `json:"world"`             // the newest World that it knows; 0: none
	Phase      Phase             `json:"phase,omitempty"`   // of that World, if it ended
	Count      int               `json:"count"`             // of its members
	Rank       int               `json:"rank"`              // of this node there; -1: it is no member
	Members    []string          `json:"members,omitempty"` // by rank; a large World's only from its first ranks
	Known      checkpoint.Head   `json:"known"`             // the newest commit that it heard of
	Heads      []checkpoint.Head `json:"heads"`             // committed, and on its disk; oldest first
	Newest     *checkpoint.Head  `json:"newest"`            // the newest on its disk that it has read and found whole
	// Heads and Newest were read while the claim was in the store
	Looked bool `json:"looked"`
	// other nodes that were registered under that World, by name
	Spares []string `json:"spares,omitempty"`
	// this node found the store behind; else it joined others that did
	Behind   bool        `json:"behind"`
	Cluster  uint64      `json:"cluster,omitempty"` // the store that it last read, and the revision there
	StoreRev int64       `json:"store_rev,omitempty"`
	Rev      int64       `json:"-"`
	Lease    store.Lease `json:"-"`
}

// Claimed is what a node would claim of job j, whose newest World it knows is w: nil for none.
func Claimed(node string, j Job, wish Wish, w *World) Claim {
	c := Claim{Node: node, Job: j, Wish: wish, WishRev: wish.Rev, Rank: -1}
	if w == nil {
		return c
	}
	c.World, c.Generation, c.Count = w.Generation, w.Generation, w.Count
	if w.Phase.Ended() && w.Attempt == j.Attempt {
		c.Phase = w.Phase
	}
	if c.Wish.Request == "" {
		c.Wish, c.WishRev = Wish{NP: w.NP, Request: w.Request, By: "run", Time: w.Time}, w.WishRev
	}
	for rank, m := range w.Members {
		if m.Node == node {
			c.Rank = rank
		}
	}
	if w.Count <= MaxInline || c.Decides() {
		for _, m := range w.Members {
			c.Members = append(c.Members, m.Node)
		}
	}
	return c
}

const (
	fewClaims = 8 // up to here everybody looks at all claims, and may make the job again
	deciders  = 3 // of a larger World its first ranks do: for all the others the job itself is enough
	certain   = 2 // copies that every commit has at least, where there are nodes for them
)

// Decides reports whether this node looks at the claims of the others.
func (c *Claim) Decides() bool { return c.Count <= fewClaims || c.Rank >= 0 && c.Rank < deciders }

// Verdict is what is to be done about a job that the store has lost.
type Verdict struct {
	Remake  *Remake          // it may be made again now
	Missing []string         // else: the nodes that are waited for; empty: any node that may know more
	Holds   *checkpoint.Head // and the commit that only they have, for which they are waited for however long it takes
	Newer   schema.UID       // or: others claim a job of that name that was made after this one
}

// Remake is a job as it is made again. Its head and history have their numbers; the uid is still to
// be chosen.
type Remake struct {
	Job     Job
	Wish    Wish
	Ended   bool // its attempt had ended: it goes on as a new one
	Fence   schema.Generation
	Head    *checkpoint.Head
	Was     checkpoint.Number // the number that the head had in the store that was lost
	History []checkpoint.Head
	Claims  []string
	Missing []string
}

// Reclaim decides, for a node that claims the job uid, what is to be done about it. limit: enough
// time has passed for nodes that are only slow. Pure: the same claims, the same verdict on every node.
//
// The job may be made again when every member and spare of the newest World that is known, and every
// holder of the newest commit that is known, has claimed and looked at its disk since: a newer commit
// is then on none of them, because none passes while there is a claim. A spare may have gone on where
// all members died. After the limit, every member is enough, or so many of them that fewer members
// and spares are missing than every commit has copies. A commit that is known of, and that only a
// missing node has, is waited for without a limit.
func Reclaim(claims []Claim, uid schema.UID, limit bool) Verdict {
	chosen := newestJob(claims)
	if chosen != uid {
		return Verdict{Newer: chosen}
	}
	mine := slices.DeleteFunc(family(claims, uid), func(c Claim) bool { return !c.Looked })
	if len(mine) == 0 {
		return Verdict{}
	}
	last := mine[len(mine)-1]
	missing := absent(mine, last)
	best := newestOf(mine)
	known := newestKnown(mine)
	away := absentHolders(mine, known)
	if len(away) > 0 && (best == nil || best.Number < known.Number) {
		return Verdict{Missing: sorted(away, missing), Holds: &known}
	}
	if last.World == 0 && !limit {
		return Verdict{} // they joined before the first World, or never heard of it: others may know more
	}
	copies := min(certain, last.Job.Rules.Replicas, last.Count)
	spares := last.absentSpares(mine)
	switch all := sorted(missing, spares, away); {
	case !limit && len(all) > 0:
		return Verdict{Missing: all}
	case len(missing) > 0 && len(missing)+len(spares) >= copies:
		return Verdict{Missing: sorted(missing, spares)}
	}
	return Verdict{Remake: remake(claims, mine, missing, best)}
}

// remake is the job as those claims make it again, from checkpoint best; nil is from scratch.
func remake(all, mine []Claim, missing []string, best *checkpoint.Head) *Remake {
	last := mine[len(mine)-1]
	r := &Remake{Job: last.Job, Wish: last.Wish, Ended: last.Phase.Ended(), Missing: missing}
	for _, c := range mine {
		r.Claims = append(r.Claims, c.Node)
	}
	slices.Sort(r.Claims)
	r.adopt(all, mine, best)
	return r
}

// Insist is the word of an operator that the missing nodes do not come back. It returns the job as
// it is made again without them, from checkpoint n of those that the others have; nil if none of them
// has it.
func Insist(claims []Claim, n checkpoint.Number) *Remake {
	mine := family(claims, newestJob(claims))
	for _, c := range mine {
		for _, h := range c.Heads {
			if h.Number == n {
				return remake(claims, mine, absent(mine, mine[len(mine)-1]), &h)
			}
		}
		if c.Newest != nil && c.Newest.Number == n {
			return remake(claims, mine, absent(mine, mine[len(mine)-1]), c.Newest)
		}
	}
	return nil
}

// newestJob is the uid that counts when several jobs of one name are claimed: none that another
// succeeds, and of what is left the one that was made last.
func newestJob(claims []Claim) schema.UID {
	old := map[schema.UID]bool{}
	for _, c := range claims {
		for _, u := range c.Job.Predecessors() {
			old[u] = true
		}
	}
	var newest *Claim
	for i, c := range claims {
		if old[c.Job.UID] {
			continue
		}
		if newest == nil || cmp.Or(newest.Job.Time.Compare(c.Job.Time), cmp.Compare(newest.Job.UID, c.Job.UID)) < 0 {
			newest = &claims[i]
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Job.UID
}

// family are the claims to the job uid, and those of nodes that were away when it was made again
// before: they knew it under the uid that it had then. Their numbers are of that time: where the
// job has checkpoints of its own, what they have counts under the number that somebody knows it by
// now. Whose word on the job, the wish and the World counts comes last.
func family(claims []Claim, uid schema.UID) (mine []Claim) {
	numbers := map[checkpoint.Hash]checkpoint.Number{}
	var job *Job
	for i, c := range claims {
		if c.Job.UID != uid {
			continue
		}
		job, mine = &claims[i].Job, append(mine, c)
		for _, h := range append(slices.Clone(c.Heads), c.Known) {
			if h.Number > 0 {
				numbers[h.Manifest] = h.Number
			}
		}
	}
	for _, c := range claims {
		if !job.Follows(c.Job.UID) {
			continue
		}
		if len(numbers) == 0 { // the job has no checkpoint of its own: one of before is better than none
			c.Known = checkpoint.Head{}
			mine = append(mine, c)
			continue
		}
		mine = append(mine, c.renumbered(numbers))
	}
	slices.SortFunc(mine, func(a, b Claim) int { // whose word on the job, the wish and the World counts comes last
		return cmp.Or(cmp.Compare(rank(a.Job.UID == uid), rank(b.Job.UID == uid)), cmp.Compare(a.World, b.World),
			cmp.Compare(rank(len(a.Members) > 0), rank(len(b.Members) > 0)),
			cmp.Compare(a.WishRev, b.WishRev), cmp.Compare(a.Node, b.Node))
	})
	return mine
}

// renumbered is the claim with what has a number in numbers, under that, and without all else. Where
// the newest that was read has none, as one that was only captured, what was committed before it
// counts: if it cannot be read, the next world says so.
func (c Claim) renumbered(numbers map[checkpoint.Hash]checkpoint.Number) Claim {
	heads, read := c.Heads, c.Newest
	c.Heads, c.Newest, c.Known = nil, nil, checkpoint.Head{}
	if read != nil {
		heads = append(slices.Clone(heads), *read)
	}
	for _, h := range heads {
		n, ok := numbers[h.Manifest]
		if h.Number = n; !ok {
			continue
		}
		c.Heads = append(c.Heads, h)
		if read != nil && h.Manifest == read.Manifest {
			c.Newest = &h
		}
	}
	if read != nil && c.Newest == nil && len(c.Heads) > 0 {
		c.Newest = &c.Heads[len(c.Heads)-1]
	}
	return c
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// absent are the members of the newest World that have not claimed.
func absent(mine []Claim, last Claim) (missing []string) {
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
func (c *Claim) absentSpares(mine []Claim) (missing []string) {
	for _, node := range c.Spares {
		if !claimedBy(mine, node) && !slices.Contains(c.Members, node) {
			missing = append(missing, node)
		}
	}
	return missing
}

// absentHolders are the nodes with a copy of head that have not claimed.
func absentHolders(mine []Claim, head checkpoint.Head) (missing []string) {
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

func claimedBy(claims []Claim, node string) bool {
	return slices.ContainsFunc(claims, func(c Claim) bool { return c.Node == node })
}

// newestOf is the newest checkpoint that one of them found whole: by its number, and of one number
// what was committed before what was only captured.
func newestOf(claims []Claim) *checkpoint.Head {
	var best *checkpoint.Head
	for _, c := range claims {
		if n := c.Newest; n != nil && (best == nil || cmp.Or(cmp.Compare(best.Number, n.Number),
			cmp.Compare(min(best.Copies, 1), min(n.Copies, 1)), best.Time.Compare(n.Time)) < 0) {
			best = n
		}
	}
	return best
}

func newestKnown(claims []Claim) (known checkpoint.Head) {
	for _, c := range claims {
		if c.Known.Number > known.Number {
			known = c.Known
		}
	}
	return known
}

// mostHistory bounds what is adopted beside the head: a transaction is small.
const mostHistory = 32

// adopt takes over the fence, the newest checkpoint and those before it. The head is numbered above
// every number that anybody saw, and the fence is not below any generation: nothing of the time
// before can pass for newer.
func (r *Remake) adopt(all, mine []Claim, best *checkpoint.Head) {
	var number checkpoint.Number
	for _, c := range all {
		r.Fence = max(r.Fence, c.Generation, c.World)
		number = max(number, c.Known.Number)
		for _, h := range c.Heads {
			number = max(number, h.Number)
		}
		if c.Newest != nil {
			number = max(number, c.Newest.Number)
		}
	}
	if best == nil {
		return
	}
	head := *best
	r.Was, head.Number = best.Number, number+1
	head.Holders, head.Copies = holders(mine, head.Manifest)
	head.Offered = false
	r.Head = &head
	older := map[checkpoint.Number]checkpoint.Head{}
	for _, c := range mine {
		for _, h := range c.Heads {
			if h.Number < best.Number && h.Manifest != best.Manifest {
				h.Holders, h.Copies = holders(mine, h.Manifest)
				older[h.Number] = h
			}
		}
	}
	for _, h := range older {
		r.History = append(r.History, h)
	}
	slices.SortFunc(r.History, func(a, b checkpoint.Head) int { return cmp.Compare(a.Number, b.Number) })
	r.History = r.History[max(0, len(r.History)-mostHistory):]
}
