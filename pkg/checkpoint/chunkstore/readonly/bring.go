package readonly

// This file finds the newest checkpoint in the store of an earlier job, from which another job of
// the name may begin. It works on the directory of a store that is not open.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// FindNewest returns the newest checkpoint of which every byte, or every byte of some of its parts, can be
// read: by generation, and then by its place among the captures of the generation. It need not be
// committed as far as this disk knows. nil: there is none.
func FindNewest(ctx context.Context, s *Store) (*manifest.Copy, error) {
	all, err := candidates(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if s.reads(ctx, &all[i]) && ctx.Err() == nil {
			return &all[i], nil
		}
	}
	return nil, ctx.Err()
}

// reads reports whether every byte of the checkpoint, or of some of its parts, can be read. It sets
// Has to these parts.
func (s *Store) reads(ctx context.Context, c *manifest.Copy) bool {
	readable := func(h manifest.Hash) bool {
		m, bad, err := s.Verify(ctx, h)
		return err == nil && m != nil && len(bad) == 0
	}
	if readable(c.Head.Manifest) {
		return true
	}
	for _, p := range c.Head.Parts {
		if readable(p.Manifest) {
			c.Has = append(c.Has, p.Manifest)
		}
	}
	return c.Has != nil
}

// candidates returns the checkpoints on the disk, whole or not, the newest first.
func candidates(ctx context.Context, s *Store) (all []manifest.Copy, err error) {
	heads, err := s.Heads()
	if err != nil {
		return nil, err
	}
	held, err := s.Held()
	if err != nil {
		return nil, err
	}
	partial, err := s.Partial()
	if err != nil {
		return nil, err
	}
	last := manifest.Number(0)
	if n := len(heads); n > 0 {
		last = heads[n-1].Number
	}
	for _, h := range append(held, partial...) {
		m, err := s.ReadManifest(ctx, h)
		if err != nil {
			return nil, err
		}
		if m == nil || m.Part || slices.ContainsFunc(all, func(c manifest.Copy) bool { return c.Head.Manifest == h }) {
			continue
		}
		c := manifest.CopyOf(m, h)
		c.Head.Number = last + 1
		for _, known := range heads {
			if known.Manifest == h {
				c.Head.Number = known.Number
			}
		}
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b manifest.Copy) int {
		return -cmp.Or(cmp.Compare(a.Head.Generation, b.Head.Generation), cmp.Compare(a.Sequence, b.Sequence),
			a.Head.Compare(b.Head))
	})
	return all, nil
}

// BringIn prepares the store in t, a copy of that of an earlier job, for a new one: it keeps only the newest
// checkpoint, as one that the node brings. It returns nil if there is none.
func BringIn(ctx context.Context, t dirfs.FS) (*manifest.Copy, error) {
	s, disk := New(t), dirfs.NewDisk(t, Temp+"/bring-")
	f, err := FindNewest(ctx, s)
	if f == nil || err != nil {
		return nil, err
	}
	if err := s.keepOnly(ctx, disk, manifests(*f)); err != nil {
		return nil, err
	}
	b, err := json.Marshal(f.Head)
	if err != nil {
		return nil, err
	}
	if err := disk.Discard(Heads); err != nil {
		return nil, err
	}
	return f, disk.WriteFile(".", Brought, b)
}

// KeepBrought prepares the store in t, a copy of that of a job before it was made again. It keeps what is there
// of the checkpoints that are committed, and reports whether there is any.
func KeepBrought(ctx context.Context, t dirfs.FS, committed []manifest.Head) (bool, error) {
	s, disk := New(t), dirfs.NewDisk(t, Temp+"/keep-")
	all, err := candidates(ctx, s)
	if err != nil {
		return false, err
	}
	var heads []manifest.Head
	var keep []manifest.Hash
	for i := range all {
		same := func(h manifest.Head) bool { return h.Manifest == all[i].Head.Manifest }
		if at := slices.IndexFunc(committed, same); at >= 0 && s.reads(ctx, &all[i]) {
			heads, keep = append(heads, committed[at]), append(keep, manifests(all[i])...)
		}
	}
	if heads == nil || ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err := s.keepOnly(ctx, disk, keep); err != nil {
		return false, err
	}
	b, err := json.Marshal(heads)
	if err != nil {
		return false, err
	}
	return true, disk.WriteFile(".", Heads, b)
}

// keepOnly removes the checkpoints and parts from the disk that are not in keep.
func (s *Store) keepOnly(ctx context.Context, disk *dirfs.Disk, keep []manifest.Hash) error {
	all, err := candidates(ctx, s)
	if err != nil {
		return err
	}
	for _, c := range all {
		for _, h := range manifests(c) {
			if !slices.Contains(keep, h) {
				err = errors.Join(err, disk.Discard(path.Join(Manifests, h.String())),
					disk.Discard(path.Join(Partial, h.String())))
			}
		}
	}
	return err
}

// manifests lists those of a copy: of the checkpoint, and of its parts unless the disk lacks them.
func manifests(c manifest.Copy) []manifest.Hash {
	all := append([]manifest.Hash{c.Head.Manifest}, c.Has...)
	for _, p := range c.Head.Parts {
		if c.Has == nil {
			all = append(all, p.Manifest)
		}
	}
	return all
}
