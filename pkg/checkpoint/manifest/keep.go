package manifest

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/schema"
)

// OnDisk has the manifests on the disk of a node.
type OnDisk struct {
	Held    map[Hash]Position
	Partial map[Hash]Partial
	Heads   []Head // their commits, as far as the node knew them until now
}

// Partial is a checkpoint of which a node has only parts.
type Partial struct {
	At    Position
	Parts []Hash // all parts of the checkpoint, on this disk or not
}

// Kept says which manifests stay on a disk.
type Kept struct {
	seen   schema.Generation
	named  map[Hash]bool // committed or pinned manifests, and their parts
	newest Position      // of the commits of this job on this disk
	// parts has the newest committed part on this disk of each node.
	parts map[string]Position
	// left is the newest checkpoint in parts that is of an older generation and of which the node
	// knows no commit. It may have been committed in a store that was set back since. No node has
	// all of its parts, so each must keep those that it has.
	left Position
}

// Keep decides which manifests stay. seen must be read before committed: then no generation older
// than seen can commit after committed was read.
func Keep(d OnDisk, committed []Head, seen schema.Generation, pinned []Hash) Kept {
	k := Kept{seen: seen, named: map[Hash]bool{}, parts: map[string]Position{}}
	for _, p := range pinned {
		k.named[p] = true
	}
	for _, c := range committed {
		k.named[c.Manifest] = true
		for _, p := range c.Parts {
			k.named[p.Manifest] = true
		}
		at, ok := d.Held[c.Manifest]
		if !ok {
			at = d.Partial[c.Manifest].At
		}
		if k.newest.Before(at) {
			k.newest = at
		}
		for _, p := range c.Parts {
			if at, ok := d.Held[p.Manifest]; ok && k.parts[at.Of].Before(at) {
				k.parts[at.Of] = at
			}
		}
	}
	for h, p := range d.Partial {
		if !k.named[h] && !d.knew(h) && p.At.Generation < k.seen && k.left.Before(p.At) {
			k.left = p.At
		}
	}
	for h, p := range d.Partial {
		if !k.Needs(h, p.At) {
			continue
		}
		for _, part := range p.Parts {
			k.named[part] = true
		}
	}
	return k
}

// knew reports whether the node knew that a checkpoint was committed.
func (d OnDisk) knew(h Hash) bool {
	return slices.ContainsFunc(d.Heads, func(c Head) bool { return c.Manifest == h })
}

// Needs reports whether a checkpoint is committed, may still be committed, or may have been
// committed in a store that was set back. An agent commits its captures in the order in which it
// made them, so a capture before the newest commit will never be committed.
func (k Kept) Needs(h Hash, at Position) bool {
	return k.named[h] || !at.Before(k.newest) && (at.Generation >= k.seen || at == k.left)
}

// Garbage returns the manifests to delete from a disk: those that are not committed, and cannot be
// any more. A part can be deleted when a later part of its node is committed. OldParts returns
// parts that can be deleted earlier.
func (k Kept) Garbage(held map[Hash]Position) (drop []Hash) {
	for h, p := range held {
		newest := k.newest
		if p.Part {
			newest = k.parts[p.Of]
		}
		if !k.named[h] && (p.Generation < k.seen || p.Before(newest)) {
			drop = append(drop, h)
		}
	}
	return drop
}

// OldParts returns the parts that the node of before.Of captured before that position, and all
// parts of each other node except the newest MostParts. It never returns a part that is needed.
func OldParts(held map[Hash]Position, needed map[Hash]bool, before Position) (old []Hash) {
	others := map[string][]Hash{}
	for h, p := range held {
		switch {
		case !p.Part || needed[h]:
		case p.Of != before.Of:
			others[p.Of] = append(others[p.Of], h)
		case p.Before(before):
			old = append(old, h)
		}
	}
	for _, of := range others {
		slices.SortFunc(of, func(a, b Hash) int {
			return cmp.Or(cmp.Compare(held[b].Generation, held[a].Generation),
				cmp.Compare(held[b].Sequence, held[a].Sequence), slices.Compare(a[:], b[:]))
		})
		old = append(old, of[min(MostParts, len(of)):]...)
	}
	return old
}
