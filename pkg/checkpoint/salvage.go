package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/elasticd/elastic/pkg/schema"
)

// Salvage is what this disk can give to a job whose store was lost: the commits that it knows of and has,
// oldest first, and the newest checkpoint of which every byte was read and found right.
//
// Captured counts more than committed, if it is a later capture of generation g, in which the newest
// World that this node knows trained: nobody can have asked for an older one since. Its number is the
// one that it would have got, and it has no copies.
func (s *Shelf) Salvage(ctx context.Context, g schema.Generation) (committed []Head, newest *Head, err error) {
	heads, err := s.heads()
	if err != nil {
		return nil, nil, err
	}
	held, err := s.Held()
	if err != nil {
		return nil, nil, err
	}
	for _, h := range heads {
		if slices.Contains(held, h.Manifest) {
			committed = append(committed, h)
		}
	}
	later, err := s.captured(ctx, g, committed, held)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range append(later, reversed(committed)...) {
		m, bad, err := s.Verify(ctx, h.Manifest)
		if errors.Is(err, ErrNotHeld) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if m != nil && len(bad) == 0 {
			return committed, &h, nil
		}
	}
	return committed, nil, nil
}

func reversed(heads []Head) []Head {
	all := slices.Clone(heads)
	slices.Reverse(all)
	return all
}

// heads are the records that the owner of this store noted.
func (s *Shelf) heads() (heads []Head, err error) {
	b, err := s.disk.readFile(headsFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(b, &heads) != nil {
		heads = nil // as its owner takes it
	}
	slices.SortFunc(heads, func(a, b Head) int { return cmp.Compare(a.Number, b.Number) })
	return heads, nil
}

// captured are the captures of generation g that are on this disk and were made after every commit, newest
// first. After a fall-back, which is a commit of older bytes, only those of a generation without a commit.
func (s *Shelf) captured(ctx context.Context, g schema.Generation, committed []Head, held []Hash) ([]Head, error) {
	var number Number
	var last place
	noted := map[Hash]bool{}
	for _, h := range committed {
		m, err := s.manifest(ctx, h.Manifest)
		if err != nil {
			return nil, err
		}
		noted[h.Manifest] = true
		number = max(number, h.Number)
		if at := (place{h.Generation, 0}); m != nil {
			at.Sequence = m.Sequence
			if at.before(last) {
				last.Sequence = 1<<64 - 1
			} else {
				last = at
			}
		}
	}
	type capture struct {
		Head
		place
	}
	var all []capture
	for _, h := range held {
		if noted[h] {
			continue
		}
		m, err := s.manifest(ctx, h)
		if err != nil {
			return nil, err
		}
		if at := (place{}); m != nil && m.Generation == g {
			at = place{m.Generation, m.Sequence}
			if last.before(at) {
				all = append(all, capture{Head{Number: number + 1, Generation: m.Generation, Manifest: h, Step: m.Step,
					Samples: m.Samples, Bytes: m.Bytes(), Time: m.Time}, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b capture) int { return cmp.Compare(b.Sequence, a.Sequence) })
	var heads []Head
	for _, c := range all {
		heads = append(heads, c.Head)
	}
	return heads, nil
}

// manifest is nil where there is none that can be used.
func (s *Shelf) manifest(ctx context.Context, h Hash) (*Manifest, error) {
	raw, err := s.Manifest(ctx, h)
	if err == nil {
		var m *Manifest
		if m, err = DecodeManifest(raw); err == nil {
			return m, nil
		}
	}
	if errors.Is(err, ErrNotHeld) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrBadManifest) || errors.Is(err, schema.ErrNewerFormat) {
		return nil, nil
	}
	return nil, err
}
