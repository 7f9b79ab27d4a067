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

// Salvaged lists the checkpoints of one disk from which a job that lost its store can start.
type Salvaged struct {
	Committed []manifest.Head // commits that are on this disk, oldest first
	// Newest is the newest checkpoint of which every byte was verified; nil: none.
	Newest *manifest.Head
	// Sequence is the position of Newest among the captures of its generation.
	Sequence uint64
	Parts    []FoundParts // of commits of which this disk has only parts, oldest first
	Others   []OtherParts // of checkpoints that may be committed
	// Unread is an error of a read, after which the lists may be incomplete; nil: all was read.
	Unread error
}

// FoundParts are the verified parts of a commit.
type FoundParts struct {
	Head  manifest.Head   `json:"head"`
	Parts []manifest.Hash `json:"parts"`
}

// OtherParts are the verified parts of a checkpoint without a commit record on this disk. Another
// node may know whether it was committed.
type OtherParts struct {
	Manifest manifest.Hash   `json:"manifest"`
	Parts    []manifest.Hash `json:"parts"`
}

// Known has what a node knows of its job from elsewhere than its disk.
type Known struct {
	World schema.Generation // the newest; 0: none
	Order schema.Order      // of that World
	Head  manifest.Head     // the newest that the node knows
}

// Salvage finds the checkpoints of a disk from which a job that lost its store can start.
//
// It leaves out what it cannot read, and sets Unread. A later call may read it.
//
// A capture is preferred to a commit if it is a later capture of the generation of the newest world,
// because no operator can have asked for an older one since. It gets the number that its commit
// would have had, and has no copies. If a job was made again from a capture, the capture is the head
// of that job, even if this disk has no record of it yet.
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
		slices.SortFunc(heads, manifest.Head.Compare)
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
	for _, h := range append(x.captured(ctx, k, held), newestFirst...) {
		if m := x.readWhole(ctx, h.Manifest); m != nil {
			x.found.Newest, x.found.Sequence = &h, m.Sequence
			break
		}
	}
	return x.found, ctx.Err()
}

// salvager is the state of one Salvage. Errors of reads are added to found.Unread.
type salvager struct {
	s     *readonly.Store
	found Salvaged
}

// other adds the parts of a checkpoint without a commit record on this disk.
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

// wholeParts returns the parts that are complete on this disk.
func (x *salvager) wholeParts(ctx context.Context, parts []manifest.Hash) (whole []manifest.Hash) {
	for _, p := range parts {
		if m := x.readWhole(ctx, p); m != nil {
			whole = append(whole, p)
		}
	}
	return whole
}

// readWhole reads every byte of a manifest's files. It returns the manifest if all are right, else
// nil.
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

// readManifest returns nil if there is no valid manifest.
func (x *salvager) readManifest(ctx context.Context, h manifest.Hash) *manifest.Manifest {
	m, err := x.s.ReadManifest(ctx, h)
	x.found.Unread = cmp.Or(x.found.Unread, err)
	return m
}

// captured returns the captures of the newest World in held that are later than all commits, newest
// first. After a rollback, which commits older bytes again, it returns only captures of a
// generation without a commit.
func (x *salvager) captured(ctx context.Context, k Known, held []manifest.Hash) []manifest.Head {
	var newest manifest.Head
	var last manifest.Position
	noted := map[manifest.Hash]bool{}
	for _, h := range x.found.Committed {
		m := x.readManifest(ctx, h.Manifest)
		noted[h.Manifest] = true
		newest = h
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
		if at := (manifest.Position{}); m != nil && m.Generation == k.World && m.World == k.Order && !m.Part {
			at = manifest.Position{Generation: m.Generation, Sequence: m.Sequence}
			if last.Before(at) {
				head := manifest.Head{Generation: m.Generation, Manifest: h, Step: m.Step,
					Samples: m.Samples, Bytes: m.Bytes(), Time: m.Time}.Again(newest)
				head.Order = max(head.Order, k.Order.After())
				all = append(all, capture{head, at})
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
