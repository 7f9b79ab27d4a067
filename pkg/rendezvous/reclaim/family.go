package reclaim

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// newestJob is the uid that counts when several jobs of one name are claimed: none that another
// succeeds, and of what is left the one that was made last. One that was begun anew and never ran
// counts only if there is no other.
func newestJob(claims []rendezvous.Claim) schema.UID {
	old := map[schema.UID]bool{}
	for _, c := range claims {
		for _, u := range c.Job.Predecessors() {
			old[u] = true
		}
	}
	ran := func(c *rendezvous.Claim) int {
		if c.Ran() {
			return 1
		}
		return 0
	}
	var newest *rendezvous.Claim
	for i, c := range claims {
		if old[c.Job.UID] {
			continue
		}
		if newest == nil || cmp.Or(cmp.Compare(ran(newest), ran(&c)),
			newest.Job.Time.Compare(c.Job.Time), cmp.Compare(newest.Job.UID, c.Job.UID)) < 0 {
			newest = &claims[i]
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Job.UID
}

// family are the claims to the job uid and to its twins, and those of nodes that were away when it was
// made again before: they knew it under the uid that it had then. Their numbers are of that time: where the
// job has checkpoints of its own, what they have counts under the number that a claim gives it
// now: the largest of those that an older checkpoint got because the job went back to it. Whose word
// on the job, the wish and the World counts comes last.
func family(claims []rendezvous.Claim, uid schema.UID) (mine []rendezvous.Claim) {
	at := slices.IndexFunc(claims, func(c rendezvous.Claim) bool { return c.Job.UID == uid })
	if at < 0 {
		return nil
	}
	job, numbers := &claims[at].Job, map[checkpoint.Hash]checkpoint.Number{}
	own := func(c rendezvous.Claim) bool { return c.Job.UID == uid || job.Twin(&c.Job) }
	for _, c := range claims {
		if !own(c) {
			continue
		}
		mine = append(mine, c)
		for _, h := range append(slices.Clone(c.Heads), c.Known) {
			if h.Number > 0 {
				numbers[h.Manifest] = max(numbers[h.Manifest], h.Number)
			}
		}
	}
	for i := range mine {
		mine[i] = raised(mine[i], numbers)
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
		mine = append(mine, renumbered(c, numbers))
	}
	ofJob := func(c rendezvous.Claim) int {
		if own(c) {
			return 1
		}
		return 0
	}
	// whose word on the job, the wish and the World counts comes last
	slices.SortFunc(mine, func(a, b rendezvous.Claim) int {
		return cmp.Or(cmp.Compare(ofJob(a), ofJob(b)), cmp.Compare(a.World, b.World),
			cmp.Compare(min(len(a.Members), 1), min(len(b.Members), 1)),
			cmp.Compare(a.WishRev, b.WishRev), cmp.Compare(a.Node, b.Node))
	})
	return mine
}

// raised is the claim with each checkpoint under the newest number that its bytes are known by: the
// job went back to it, and this node may not have heard of that. It is newer then than what the node
// read, and if it cannot be read, the next world says so.
func raised(c rendezvous.Claim, numbers map[checkpoint.Hash]checkpoint.Number) rendezvous.Claim {
	if c.Newest == nil {
		return c
	}
	newest := *c.Newest
	newest.Number = max(newest.Number, numbers[newest.Manifest])
	c.Heads = slices.Clone(c.Heads)
	for i := range c.Heads {
		h := &c.Heads[i]
		back := h.Number < c.Newest.Number // it was not read, for a newer one was whole
		if h.Number = max(h.Number, numbers[h.Manifest]); back && compare(*h, newest) > 0 {
			newest, c.Sequence = *h, 0
		}
	}
	c.Newest = &newest
	slices.SortStableFunc(c.Heads, func(a, b checkpoint.Head) int { return cmp.Compare(a.Number, b.Number) })
	return c
}

// renumbered is the claim with what has a number in numbers, under that, and without all else.
// Where the newest that was read has none, as one that was only captured, what was committed before
// it counts: if it cannot be read, the next world says so.
func renumbered(c rendezvous.Claim, numbers map[checkpoint.Hash]checkpoint.Number) rendezvous.Claim {
	heads, read := c.Heads, c.Newest
	c.Heads, c.Newest, c.Sequence, c.Known = nil, nil, 0, checkpoint.Head{}
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
