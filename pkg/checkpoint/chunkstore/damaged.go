package chunkstore

import (
	"fmt"
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// damage is a manifest that Open found damaged: its file is damaged or missing, or a chunk is
// missing. The rest stays on disk while the checkpoint is needed, because another node may have
// lost other chunks.
type damage struct {
	dir      string             // the directory of the manifest
	manifest *manifest.Manifest // its chunks are counted; nil: its file is damaged or missing
}

// addDamaged records a damaged checkpoint. The Store is not shared yet.
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

// addLost records the committed checkpoints whose manifest is missing.
func (s *Store) addLost() {
	for _, c := range s.heads {
		switch {
		case s.hasManifest(c.Manifest):
		case c.Parts != nil:
			s.addDamaged(c.Manifest, damage{dir: readonly.Partial})
		default:
			s.addDamaged(c.Manifest, damage{dir: readonly.Manifests})
		}
	}
}

// dropDamaged removes the damage of a checkpoint that was repaired or removed. mu is held.
func (s *Store) dropDamaged(h manifest.Hash) {
	d := s.damaged[h]
	delete(s.damaged, h)
	if d.manifest != nil {
		for c := range d.manifest.DistinctChunks() {
			s.chunk(c).refs--
		}
	}
}

// retainDamaged removes damaged manifests that no record names or can name later.
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

// unknownChunks reports whether a needed manifest is damaged, so that any chunk may be needed. mu
// is held.
func (s *Store) unknownChunks() bool {
	for _, d := range s.damaged {
		if d.manifest == nil && d.dir == readonly.Manifests {
			return true
		}
	}
	return false
}

// HasParts reports whether this disk has parts of a checkpoint, even if the manifest is damaged.
func (s *Store) HasParts(h manifest.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, parts := s.partial[h]
	d, damaged := s.damaged[h]
	return parts || damaged && d.dir == readonly.Partial
}
