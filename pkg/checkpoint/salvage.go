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
}

// FoundParts are parts of a commit of which every byte was read and found right.
type FoundParts struct {
	Head  manifest.Head   `json:"head"`
	Parts []manifest.Hash `json:"parts"`
}

// Salvage reads from which checkpoints of a disk a job that lost its store could start.
//
// Captured counts more than committed, if it is a later capture of generation g, in which the
// newest World that this node knows trained: no operator can have asked for an older one since. Its
// number is the one that it would have got, and it has no copies.
func Salvage(ctx context.Context, s *readonly.Store, g schema.Generation) (found Salvaged,
	err error) {
	heads, err := s.Heads()
	if err != nil {
		return Salvaged{}, err
	}
	held, err := s.Held()
	if err != nil {
		return Salvaged{}, err
	}
	for _, h := range heads {
		if slices.Contains(held, h.Manifest) {
			found.Committed = append(found.Committed, h)
			continue
		}
		parts, err := wholeParts(ctx, s, h)
		if err != nil {
			return Salvaged{}, err
		}
		if parts != nil {
			found.Parts = append(found.Parts, FoundParts{h, parts})
		}
	}
	later, err := captured(ctx, s, onDisk{g, found.Committed, held})
	if err != nil {
		return Salvaged{}, err
	}
	newestFirst := slices.Clone(found.Committed)
	slices.Reverse(newestFirst)
	for _, h := range append(later, newestFirst...) {
		m, err := readWhole(ctx, s, h.Manifest)
		if err != nil {
			return Salvaged{}, err
		}
		if m != nil {
			found.Newest, found.Sequence = &h, m.Sequence
			break
		}
	}
	return found, nil
}

// wholeParts are the parts of a commit that are here and whole.
func wholeParts(ctx context.Context, s *readonly.Store,
	h manifest.Head) (parts []manifest.Hash, err error) {
	for _, p := range h.Parts {
		m, err := readWhole(ctx, s, p.Manifest)
		if err != nil {
			return nil, err
		}
		if m != nil {
			parts = append(parts, p.Manifest)
		}
	}
	return parts, nil
}

// readWhole reads every byte of what a manifest lists, and returns the manifest if all are right.
func readWhole(ctx context.Context, s *readonly.Store,
	h manifest.Hash) (*manifest.Manifest, error) {
	m, bad, err := s.Verify(ctx, h)
	if errors.Is(err, chunkstore.ErrNotHeld) {
		return nil, nil
	}
	if len(bad) > 0 {
		m = nil
	}
	return m, err
}

// onDisk is what a disk has of the checkpoints of a job.
type onDisk struct {
	generation schema.Generation // the newest that the node saw
	committed  []manifest.Head   // by number
	held       []manifest.Hash
}

// captured are the captures of the generation that are on this disk and were made after every
// commit, newest first. After a fall-back, which is a commit of older bytes, only those of a
// generation without a commit.
func captured(ctx context.Context, s *readonly.Store, of onDisk) ([]manifest.Head, error) {
	var number manifest.Number
	var last manifest.Position
	noted := map[manifest.Hash]bool{}
	for _, h := range of.committed {
		m, err := s.ReadManifest(ctx, h.Manifest)
		if err != nil {
			return nil, err
		}
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
	for _, h := range of.held {
		if noted[h] {
			continue
		}
		m, err := s.ReadManifest(ctx, h)
		if err != nil {
			return nil, err
		}
		if at := (manifest.Position{}); m != nil && m.Generation == of.generation && !m.Part {
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
	return heads, nil
}
