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
	Head     manifest.Head   `json:"head"`
	Parts    []manifest.Hash `json:"parts"`
	Sequence uint64          `json:"sequence,omitempty"` // as in Salvaged
}

// OtherParts are the verified parts of a checkpoint without a commit record on this disk. Another
// node may know whether it was committed.
type OtherParts struct {
	Manifest manifest.Hash   `json:"manifest"`
	Parts    []manifest.Hash `json:"parts"`
	// Captured is the record of a capture of the newest world that is later than all commits on this
	// disk: it counts, committed or not, where all its parts are found. nil: another checkpoint.
	Captured *manifest.Head `json:"captured,omitempty"`
	Sequence uint64         `json:"sequence,omitempty"` // as in Salvaged
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
// would have had, and has no copies. After a rollback, which commits older bytes again, a capture
// counts only if its generation has no commit. If an operator has restored a checkpoint since that
// world, no capture counts. If a job was made again from a capture, the capture is the head of that
// job, even if this disk has no record of it yet.
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
	committed := func(h manifest.Hash) bool {
		return slices.ContainsFunc(heads, func(c manifest.Head) bool { return c.Manifest == h })
	}
	x := salvager{s: s, known: k, restored: lastRestored(append(slices.Clip(heads), k.Head))}
	if slices.Contains(slices.Concat(held, partial), k.Head.Manifest) && !committed(k.Head.Manifest) {
		heads = append(heads, k.Head)
		slices.SortFunc(heads, manifest.Head.Compare)
	}
	for _, h := range heads {
		if slices.Contains(held, h.Manifest) {
			x.found.Committed = append(x.found.Committed, h)
			x.advance(ctx, h)
			continue
		}
		h.Parts = x.partsOf(ctx, h)
		if parts := x.wholeParts(ctx, manifestsOf(h.Parts)); parts != nil {
			x.found.Parts = append(x.found.Parts, FoundParts{h, parts, x.advance(ctx, h)})
		}
	}
	for _, h := range partial {
		if !committed(h) && !slices.Contains(held, h) {
			x.other(ctx, h)
		}
	}
	newestFirst := slices.Clone(x.found.Committed)
	slices.Reverse(newestFirst)
	captured := x.captured(ctx, slices.DeleteFunc(held, committed))
	for _, h := range append(captured, newestFirst...) {
		if m := x.readWhole(ctx, h.Manifest); m != nil {
			x.found.Newest, x.found.Sequence = &h, m.Sequence
			break
		}
	}
	return x.found, ctx.Err()
}

// salvager is the state of one Salvage. Errors of reads are added to found.Unread.
type salvager struct {
	s        *readonly.Store
	known    Known
	restored schema.Order // captures of Worlds before it do not count
	found    Salvaged
	newest   manifest.Head     // the newest commit that is on the disk, or parts of it
	last     manifest.Position // captures up to it do not count
}

// advance makes h the newest commit, and returns its sequence; 0: not known.
func (x *salvager) advance(ctx context.Context, h manifest.Head) (sequence uint64) {
	x.newest = h
	m := x.readManifest(ctx, h.Manifest)
	if m == nil {
		return 0
	}
	at := manifest.Position{Generation: h.Generation, Sequence: m.Sequence}
	if at.Before(x.last) {
		x.last.Sequence = 1<<64 - 1
	} else {
		x.last = at
	}
	return m.Sequence
}

// other adds the parts of a checkpoint without a commit record on this disk.
func (x *salvager) other(ctx context.Context, h manifest.Hash) {
	if m := x.readManifest(ctx, h); m != nil {
		if parts := x.wholeParts(ctx, m.Parts); parts != nil {
			x.found.Others = append(x.found.Others, OtherParts{h, parts, x.asCommit(m, h), m.Sequence})
		}
	}
}

// asCommit returns the record that the commit of a capture would have had. It returns nil for a
// capture that does not count without its commit.
func (x *salvager) asCommit(m *manifest.Manifest, h manifest.Hash) *manifest.Head {
	at := manifest.Position{Generation: m.Generation, Sequence: m.Sequence}
	if m.Generation != x.known.World || m.World != x.known.Order || m.World < x.restored || m.Part ||
		!x.last.Before(at) {
		return nil
	}
	head := manifest.Head{Generation: m.Generation, Manifest: h, Step: m.Step, Samples: m.Samples,
		Bytes: m.Bytes(), Time: m.Time}.Again(x.newest)
	head.Order = max(head.Order, x.known.Order.After())
	head.Parts = manifest.Unheld(m.Parts)
	return &head
}

// lastRestored returns the order of the newest of the commits that an operator restored; 0: none.
func lastRestored(commits []manifest.Head) (last schema.Order) {
	for _, h := range commits {
		if h.Restored {
			last = max(last, h.Order)
		}
	}
	return last
}

// partsOf returns the parts of a commit. Its record has none if they were brought together before
// the commit.
func (x *salvager) partsOf(ctx context.Context, h manifest.Head) []manifest.HeldPart {
	if h.Parts != nil {
		return h.Parts
	}
	if m := x.readManifest(ctx, h.Manifest); m != nil {
		return manifest.Unheld(m.Parts)
	}
	return nil
}

// manifestsOf returns the manifests of parts.
func manifestsOf(parts []manifest.HeldPart) (list []manifest.Hash) {
	for _, p := range parts {
		list = append(list, p.Manifest)
	}
	return list
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

// captured returns those of the manifests that are captures of the newest World and later than all
// commits, newest first.
func (x *salvager) captured(ctx context.Context, held []manifest.Hash) []manifest.Head {
	type capture struct {
		manifest.Head
		sequence uint64
	}
	var all []capture
	for _, h := range held {
		if m := x.readManifest(ctx, h); m != nil {
			if head := x.asCommit(m, h); head != nil {
				all = append(all, capture{*head, m.Sequence})
			}
		}
	}
	slices.SortFunc(all, func(a, b capture) int { return cmp.Compare(b.sequence, a.sequence) })
	var heads []manifest.Head
	for _, c := range all {
		heads = append(heads, c.Head)
	}
	return heads
}
