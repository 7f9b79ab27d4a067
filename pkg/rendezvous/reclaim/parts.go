package reclaim

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// joined are the claims, where each commit of which they have every part, together, counts as one
// that each node with a part of it has. Of claims whose nodes have not looked nothing counts.
func joined(claims []rendezvous.Claim) []rendezvous.Claim {
	claims = named(claims)
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
			c.Heads = append(slices.Clone(c.Heads), p.Head)
			if c.Newest == nil || c.Newest.Number <= p.Head.Number {
				c.Newest, c.Sequence = &p.Head, 0
			}
		}
		slices.SortFunc(c.Heads, func(a, b checkpoint.Head) int { return cmp.Compare(a.Number, b.Number) })
	}
	return all
}

// named are the claims, where parts of a checkpoint are those of a commit if any claimant knows that
// it was committed: a node hears of a commit after it was made.
func named(claims []rendezvous.Claim) []rendezvous.Claim {
	commits := map[checkpoint.Hash]checkpoint.Head{}
	for _, c := range claims {
		for _, p := range c.Parts {
			commits[p.Head.Manifest] = p.Head
		}
	}
	all := slices.Clone(claims)
	for i := range all {
		c := &all[i]
		c.Parts = slices.Clone(c.Parts)
		for _, o := range c.OtherParts {
			if h, ok := commits[o.Manifest]; ok {
				c.Parts = append(c.Parts, checkpoint.FoundParts{Head: h, Parts: o.Parts})
			}
		}
	}
	return all
}

// heldBy is the record of a checkpoint that the claimants have on their disks.
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

// partsOf are the parts of a checkpoint that a node claims; nil: it claims all of it.
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
