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
func joinParts(claims []rendezvous.Claim) []rendezvous.Claim {
	claims = nameParts(claims)
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

// nameParts returns the claims, with parts moved from OtherParts to Parts where any claimant knows
// that their checkpoint was committed, or has it as a capture that counts without that. A node hears
// of a commit only after it was made, so the node with the part may not know it. Maybe no node does.
func nameParts(claims []rendezvous.Claim) []rendezvous.Claim {
	heads := map[checkpoint.Hash]checkpoint.Head{}
	add := func(h checkpoint.Head) {
		was, there := heads[h.Manifest]
		if committed := cmp.Compare(min(was.Copies, 1), min(h.Copies, 1)); h.Parts != nil &&
			(!there || cmp.Or(committed, was.Compare(h)) < 0) {
			heads[h.Manifest] = h
		}
	}
	for _, c := range claims {
		add(c.Known)
		for _, p := range c.Parts {
			add(p.Head)
		}
		for _, o := range c.OtherParts {
			if o.Captured != nil {
				add(*o.Captured)
			}
		}
	}
	all := slices.Clone(claims)
	for i := range all {
		c := &all[i]
		c.Parts = slices.Clone(c.Parts)
		for _, o := range c.OtherParts {
			if h, ok := heads[o.Manifest]; ok {
				c.Parts = append(c.Parts, checkpoint.FoundParts{Head: h, Parts: o.Parts, Sequence: o.Sequence})
			}
		}
	}
	return all
}

// heldBy returns h with the holders, copies and parts that the claimants have on their disks.
func heldBy(claims []rendezvous.Claim, h checkpoint.Head) checkpoint.Head {
	h.Holders, h.Copies = holders(claims, h.Manifest)
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
