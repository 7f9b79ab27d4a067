package reclaim

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// joinParts returns the claims, in which a checkpoint counts as whole where the claims together have
// all its parts: each node with a part of it then claims all of it. Parts of a node that has not
// yet looked at its disk do not count.
func joinParts(claims []rendezvous.Claim, own func(rendezvous.Claim) bool) []rendezvous.Claim {
	claims = nameParts(claims, own)
	there := map[checkpoint.Hash]map[checkpoint.Hash]bool{} // by checkpoint: its parts
	for _, c := range claims {
		for _, p := range c.Parts {
			if there[p.Head.Manifest] == nil {
				there[p.Head.Manifest] = map[checkpoint.Hash]bool{}
			}
			for _, h := range p.Parts {
				there[p.Head.Manifest][h] = there[p.Head.Manifest][h] || c.Looked
			}
		}
	}
	whole := func(h checkpoint.Head) bool {
		return !slices.ContainsFunc(h.Parts,
			func(p checkpoint.HeldPart) bool { return !there[h.Manifest][p.Manifest] })
	}
	all := slices.Clone(claims)
	for i := range all {
		c := &all[i]
		for _, p := range c.Parts {
			if !whole(p.Head) {
				continue
			}
			if p.Head.Copies > 0 { // it was committed
				c.Heads = append(slices.Clone(c.Heads), p.Head)
			}
			joined := *c
			joined.Newest, joined.Sequence = &p.Head, p.Sequence
			newest := newestOf([]rendezvous.Claim{*c, joined}, *c)
			c.Newest, c.Sequence = newest.Newest, newest.Sequence
		}
		slices.SortFunc(c.Heads, checkpoint.Head.Compare)
	}
	return all
}

// nameParts returns the claims, with parts moved from OtherParts to Parts where any claimant of the
// job knows that their checkpoint was committed, or has it as a capture that counts without that. A
// node hears of a commit only after it was made, so the node with the part may not know it. Maybe no
// node does. What the claimants of predecessors know counts only if no claimant of the job knows of
// a commit.
func nameParts(claims []rendezvous.Claim, own func(rendezvous.Claim) bool) []rendezvous.Claim {
	if !slices.ContainsFunc(claims, func(c rendezvous.Claim) bool {
		return own(c) && (c.Known.Number > 0 || len(c.Heads)+len(c.Parts) > 0)
	}) {
		own = func(rendezvous.Claim) bool { return true }
	}
	known := headsInParts(claims, own)
	all := slices.Clone(claims)
	for i := range all {
		c := &all[i]
		c.Parts = slices.Clone(c.Parts)
		for _, o := range c.OtherParts {
			if h, ok := known[o.Manifest]; ok {
				c.Parts = append(c.Parts, checkpoint.FoundParts{Head: h, Parts: o.Parts, Sequence: o.Sequence})
			}
		}
	}
	return all
}

// headsInParts returns the checkpoints of which claimants of the job know the parts: their commits, or
// else what their commits would have been. The record of a commit has no parts if these were brought
// together before. A node may still have only some.
func headsInParts(
	claims []rendezvous.Claim, own func(rendezvous.Claim) bool,
) map[checkpoint.Hash]checkpoint.Head {
	known := map[checkpoint.Hash]checkpoint.Head{}
	lists := map[checkpoint.Hash][]checkpoint.HeldPart{}
	add := func(h checkpoint.Head) {
		was, there := known[h.Manifest]
		committed := cmp.Compare(min(was.Copies, 1), min(h.Copies, 1))
		if !there || cmp.Or(committed, was.Compare(h)) < 0 {
			known[h.Manifest] = h
		}
		if h.Parts != nil {
			lists[h.Manifest] = h.Parts
		}
	}
	for _, c := range claims {
		if !own(c) {
			continue
		}
		for _, h := range append(c.Committed(), c.Known) {
			add(h)
		}
		for _, o := range c.OtherParts {
			if o.Captured != nil && o.Captured.Manifest == o.Manifest {
				add(*o.Captured)
			}
		}
	}
	for m, h := range known {
		if h.Parts = lists[m]; h.Parts == nil {
			delete(known, m)
			continue
		}
		known[m] = h
	}
	return known
}

// heldBy returns h with the holders, copies and parts that the claimants have on their disks.
func heldBy(claims []rendezvous.Claim, h checkpoint.Head) checkpoint.Head {
	h.Holders, h.Copies = holders(claims, h.Manifest)
	for _, c := range claims {
		for _, p := range c.Parts {
			if p.Head.Manifest == h.Manifest {
				h.Parts = p.Head.Parts // the record of h has no parts if these were brought together
			}
		}
	}
	if h.Parts == nil {
		return h
	}
	var whole []string
	parts := make([]checkpoint.HeldPart, len(h.Parts))
	for i, p := range h.Parts {
		parts[i] = checkpoint.HeldPart{Manifest: p.Manifest, Holders: []string{}}
	}
	for _, r := range h.Holders {
		found := partsOf(claims, r, h.Manifest)
		if found == nil {
			whole = append(whole, r.Node)
		}
		for i, p := range parts {
			if found == nil || slices.Contains(found, p.Manifest) {
				parts[i].Holders = append(parts[i].Holders, r.Node)
			}
		}
	}
	h.Parts = parts
	h.Copies = h.CopiesAt(whole, func(string) bool { return true })
	return h
}

// partsOf returns the parts of a checkpoint that a node claims; nil: it claims all of them.
func partsOf(claims []rendezvous.Claim, node membership.Ref, m checkpoint.Hash) []checkpoint.Hash {
	for _, c := range claims {
		for _, p := range c.Parts {
			if c.Node == node.Node && p.Head.Manifest == m {
				return p.Parts
			}
		}
	}
	return nil
}
