package chunkstore

import (
	"fmt"
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// damage is a manifest that does not count as held since Open: its file is damaged or gone, or a chunk
// is gone. What is left of it stays as long as it is needed: each of several nodes may have
// what another one lost.
type damage struct {
	dir      string             // of the manifest
	manifest *manifest.Manifest // its chunks are counted; nil: its file is damaged or gone
}

// addDamaged keeps what is left of a checkpoint. The Store is not shared yet.
func (s *Store) addDamaged(h manifest.Hash, d damage) {
	if _, known := s.damaged[h]; known {
		return
	}
	s.damaged[h] = d
	if d.manifest != nil {
		for c := range d.manifest.DistinctChunks() {
			s.chunk(c).refs++
		}
	}
}

// addLost keeps what is left of the committed checkpoints whose manifest is gone.
func (s *Store) addLost() {
	for _, c := range s.heads {
		switch {
		case s.hasManifest(c.Manifest):
		case c.Parts != nil:
			s.addDamaged(c.Manifest, damage{dir: layout.Partial})
		default:
			s.addDamaged(c.Manifest, damage{dir: layout.Manifests})
		}
	}
}

// dropDamaged forgets the damage of a checkpoint that is mended, or goes. mu is held.
func (s *Store) dropDamaged(h manifest.Hash) {
	d := s.damaged[h]
	delete(s.damaged, h)
	if d.manifest != nil {
		for c := range d.manifest.DistinctChunks() {
			s.chunk(c).refs--
		}
	}
}

// retainDamaged removes the damaged manifests that no record names, or can name any more.
func (s *Store) retainDamaged(k manifest.Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, d := range s.damaged {
		var at manifest.Position
		if d.manifest != nil {
			at = d.manifest.Position()
		}
		if k.Needs(h, at) {
			continue
		}
		if err := s.disk.Discard(path.Join(d.dir, h.String())); err != nil {
			return fmt.Errorf("retain: %w", err)
		}
		s.dropDamaged(h)
	}
	return nil
}

// unknownChunks reports whether a checkpoint may need any chunk: its manifest is damaged. mu is held.
func (s *Store) unknownChunks() bool {
	for _, d := range s.damaged {
		if d.manifest == nil && d.dir == layout.Manifests {
			return true
		}
	}
	return false
}

// HasParts reports whether this disk keeps parts of a checkpoint, also where the manifest of it is
// damaged.
func (s *Store) HasParts(h manifest.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, parts := s.partial[h]
	d, damaged := s.damaged[h]
	return parts || damaged && d.dir == layout.Partial
}
