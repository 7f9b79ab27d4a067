package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Salvaged lists the checkpoints of one disk from which a job that lost its store could start.
type Salvaged struct {
	Committed []manifest.Head // commits that it knows of and has, oldest first
	// Newest is the newest checkpoint of which every byte was read and found right; nil: none.
	Newest *manifest.Head
	// Sequence is the place of Newest among the captures of its generation.
	Sequence uint64
	Parts    []FoundParts // of commits that it knows of and has not all of, oldest first
	Others   []OtherParts // of checkpoints that it does not know to be committed
	// Unread is why some of it could not be read, which says nothing about what is there; nil: all was.
	Unread error
}

// FoundParts are parts of a commit of which every byte was read and found right.
type FoundParts struct {
	Head  manifest.Head   `json:"head"`
	Parts []manifest.Hash `json:"parts"`
}

// OtherParts are parts of a checkpoint of which every byte was read and found right. Another node knows
// whether it was committed.
type OtherParts struct {
	Manifest manifest.Hash   `json:"manifest"`
	Parts    []manifest.Hash `json:"parts"`
}

// Known is what a node knows of its job beside its disk.
type Known struct {
	World schema.Generation // the newest; 0: none
	Head  manifest.Head     // the newest that it heard of
}

// Salvage reads from which checkpoints of a disk a job that lost its store could start.
//
// What cannot be read is left out, and Unread says so: the disk may read it a moment later.
//
// Captured counts more than committed, if it is a later capture of the generation in which the newest
// World trained: no operator can have asked for an older one since. Its number is the one that it would
// have got, and it has no copies. A capture that a job was made again from is its head, though this disk
// may have no note of that yet.
func Salvage(ctx context.Context, s *readonly.Store, k Known) (Salvaged, error) {
	heads, err := s.Heads()
	if err != nil {
		return Salvaged{}, err
	}
	held, err := s.Held()
	if err != nil {
		return Salvaged{}, err
	}
	partial, err := s.Partial()
	if err != nil {
		return Salvaged{}, err
	}
	isHead := func(h manifest.Head) bool { return h.Manifest == k.Head.Manifest }
	if slices.Contains(held, k.Head.Manifest) && !slices.ContainsFunc(heads, isHead) {
		heads = append(heads, k.Head)
		slices.SortFunc(heads, func(a, b manifest.Head) int { return cmp.Compare(a.Number, b.Number) })
	}
	x := salvager{s: s}
	for _, h := range heads {
		if slices.Contains(held, h.Manifest) {
			x.found.Committed = append(x.found.Committed, h)
		} else if parts := x.wholeParts(ctx, partsOf(h)); parts != nil {
			x.found.Parts = append(x.found.Parts, FoundParts{h, parts})
		}
	}
	for _, h := range partial {
		if !slices.ContainsFunc(heads, func(c manifest.Head) bool { return c.Manifest == h }) {
			x.other(ctx, h)
		}
	}
	newestFirst := slices.Clone(x.found.Committed)
	slices.Reverse(newestFirst)
	for _, h := range append(x.captured(ctx, k.World, held), newestFirst...) {
		if m := x.readWhole(ctx, h.Manifest); m != nil {
			x.found.Newest, x.found.Sequence = &h, m.Sequence
			break
		}
	}
	return x.found, ctx.Err()
}

// salvager is one Salvage under way. What it cannot read it leaves out, and says so in found.Unread.
type salvager struct {
	s     *readonly.Store
	found Salvaged
}

// other takes in the parts of a checkpoint that no record on this disk names.
func (x *salvager) other(ctx context.Context, h manifest.Hash) {
	if m := x.readManifest(ctx, h); m != nil {
		if parts := x.wholeParts(ctx, m.Parts); parts != nil {
			x.found.Others = append(x.found.Others, OtherParts{h, parts})
		}
	}
}

func partsOf(h manifest.Head) (parts []manifest.Hash) {
	for _, p := range h.Parts {
		parts = append(parts, p.Manifest)
	}
	return parts
}

// wholeParts are those of the parts that are here and whole.
func (x *salvager) wholeParts(ctx context.Context, parts []manifest.Hash) (whole []manifest.Hash) {
	for _, p := range parts {
		if m := x.readWhole(ctx, p); m != nil {
			whole = append(whole, p)
		}
	}
	return whole
}

// readWhole reads every byte of what a manifest lists, and returns the manifest if all are right.
func (x *salvager) readWhole(ctx context.Context, h manifest.Hash) *manifest.Manifest {
	m, bad, err := x.s.Verify(ctx, h)
	if errors.Is(err, chunkstore.ErrNotHeld) {
		return nil
	}
	if x.found.Unread = cmp.Or(x.found.Unread, err); err != nil || len(bad) > 0 {
		return nil
	}
	return m
}

// readManifest returns nil where there is none that counts.
func (x *salvager) readManifest(ctx context.Context, h manifest.Hash) *manifest.Manifest {
	m, err := x.s.ReadManifest(ctx, h)
	x.found.Unread = cmp.Or(x.found.Unread, err)
	return m
}

// captured are the captures of generation g among held that were made after every commit, newest
// first. After a fall-back, which is a commit of older bytes, only those of a generation without a
// commit.
func (x *salvager) captured(ctx context.Context, g schema.Generation, held []manifest.Hash) []manifest.Head {
	var number manifest.Number
	var last manifest.Position
	noted := map[manifest.Hash]bool{}
	for _, h := range x.found.Committed {
		m := x.readManifest(ctx, h.Manifest)
		noted[h.Manifest] = true
		number = max(number, h.Number)
		if at := (manifest.Position{Generation: h.Generation, Sequence: 0}); m != nil {
			at.Sequence = m.Sequence
			if at.Before(last) {
				last.Sequence = 1<<64 - 1
			} else {
				last = at
			}
		}
	}
	type capture struct {
		manifest.Head
		manifest.Position
	}
	var all []capture
	for _, h := range held {
		if noted[h] {
			continue
		}
		m := x.readManifest(ctx, h)
		if at := (manifest.Position{}); m != nil && m.Generation == g && !m.Part {
			at = manifest.Position{Generation: m.Generation, Sequence: m.Sequence}
			if last.Before(at) {
				all = append(all, capture{manifest.Head{Number: number + 1, Generation: m.Generation,
					Manifest: h, Step: m.Step,
					Samples: m.Samples, Bytes: m.Bytes(), Time: m.Time}, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b capture) int { return cmp.Compare(b.Sequence, a.Sequence) })
	var heads []manifest.Head
	for _, c := range all {
		heads = append(heads, c.Head)
	}
	return heads
}
