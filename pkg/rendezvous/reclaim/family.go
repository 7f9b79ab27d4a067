package reclaim

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// newestJob returns the uid of the job to make again when several jobs of one name are claimed. A
// job that another claimed job lists as a predecessor does not count. Of the others a job that ran
// comes before one that never ran, and then the one that was made last wins.
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

// claimsOf returns the claims that the job uid is made from: those to uid itself, to its twins, and
// to its predecessors. A claim to a predecessor comes from a node that was away when the job was
// made again.
//
// The numbers and orders of checkpoints in the claims to predecessors are outdated. Where the claims
// to the job and its twins name checkpoints, withCurrentNumbers gives those of the predecessors the
// numbers of today and drops the others.
//
// The last claim of the result decides the job, the wish and the World.
func claimsOf(claims []rendezvous.Claim, uid schema.UID) (mine []rendezvous.Claim) {
	at := slices.IndexFunc(claims, func(c rendezvous.Claim) bool { return c.Job.UID == uid })
	if at < 0 {
		return nil
	}
	job, numbers := &claims[at].Job, map[checkpoint.Hash]checkpoint.Head{}
	own := func(c rendezvous.Claim) bool { return c.Job.UID == uid || job.Twin(&c.Job) }
	claims = joinParts(withoutGivenUp(claims, own), own)
	for _, c := range claims {
		if !own(c) {
			continue
		}
		mine = append(mine, c)
		for _, h := range append(slices.Clone(c.Heads), c.Known) {
			if numbers[h.Manifest].Before(h) {
				numbers[h.Manifest] = h
			}
		}
	}
	for i := range mine {
		mine[i] = withNewestNumbers(mine[i], numbers)
	}
	for _, c := range claims {
		if !job.Follows(c.Job.UID) {
			continue
		}
		if len(numbers) == 0 { // an outdated checkpoint is better than none
			c.Known = checkpoint.Head{}
			mine = append(mine, c)
			continue
		}
		mine = append(mine, withCurrentNumbers(c, numbers))
	}
	ofJob := func(c rendezvous.Claim) int {
		if own(c) {
			return 1
		}
		return 0
	}
	// the last claim decides the job, the wish and the World
	slices.SortFunc(mine, func(a, b rendezvous.Claim) int {
		return cmp.Or(cmp.Compare(ofJob(a), ofJob(b)), a.CompareWorlds(&b),
			cmp.Compare(min(len(a.Members), 1), min(len(b.Members), 1)),
			cmp.Compare(a.WishRev, b.WishRev), cmp.Compare(a.Node, b.Node))
	})
	return mine
}

// withoutGivenUp returns the claims without the captures that an operator gave up: those of Worlds
// before the newest checkpoint that an operator restored. A node may not have heard of that.
func withoutGivenUp(claims []rendezvous.Claim, own func(rendezvous.Claim) bool) []rendezvous.Claim {
	var restored schema.Order
	for _, c := range claims {
		for _, h := range append(c.Committed(), c.Known) {
			if h.Restored && own(c) {
				restored = max(restored, h.Order)
			}
		}
	}
	all := slices.Clone(claims)
	for i := range all {
		c := &all[i]
		if !own(*c) || c.WorldOrder >= restored {
			continue
		}
		c.OtherParts = slices.Clone(c.OtherParts)
		for j := range c.OtherParts {
			c.OtherParts[j].Captured = nil
		}
		if c.Newest == nil || c.Newest.Copies > 0 {
			continue
		}
		c.Newest, c.Sequence = nil, 0
		if n := len(c.Heads); n > 0 { // if it cannot be read, the next World reports that
			c.Newest = &c.Heads[n-1]
		}
	}
	return all
}

// withNewestNumbers returns the claim with the number and order of the newest commit that numbers has
// of each checkpoint. A checkpoint has several numbers where the job went back to it, and this node
// may not have heard of the last one. Under its new number a checkpoint may be newer than the newest
// one that the node read. If it cannot be read, the next World reports that.
func withNewestNumbers(c rendezvous.Claim, numbers map[checkpoint.Hash]checkpoint.Head) rendezvous.Claim {
	if c.Newest == nil {
		return c
	}
	renumber := func(h *checkpoint.Head) {
		if n, committed := numbers[h.Manifest]; committed && compare(*h, n) < 0 {
			h.Number, h.Order, h.Copies = n.Number, n.Order, max(1, h.Copies)
		}
	}
	newest := *c.Newest
	renumber(&newest)
	c.Heads = slices.Clone(c.Heads)
	for i := range c.Heads {
		h := &c.Heads[i]
		back := h.Before(*c.Newest) // not read, because a newer one was whole
		if renumber(h); back && compare(*h, newest) > 0 {
			newest, c.Sequence = *h, 0
		}
	}
	c.Newest = &newest
	slices.SortStableFunc(c.Heads, checkpoint.Head.Compare)
	return c
}

// withCurrentNumbers returns the claim with only the checkpoints that numbers knows, under the
// numbers there. Where it drops the newest checkpoint that the node read (for example an
// uncommitted capture), the newest remaining one takes its place. If that cannot be read, the next
// World reports it.
func withCurrentNumbers(c rendezvous.Claim, numbers map[checkpoint.Hash]checkpoint.Head) rendezvous.Claim {
	heads, read := c.Heads, c.Newest
	c.Heads, c.Newest, c.Sequence, c.Known = nil, nil, 0, checkpoint.Head{}
	if read != nil {
		heads = append(slices.Clone(heads), *read)
	}
	for _, h := range heads {
		n, ok := numbers[h.Manifest]
		if h.Number, h.Order = n.Number, n.Order; !ok {
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
