package chunkstore

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// DropParts removes the parts of saves that were captured before a position: they are committed as
// parts of a whole, or never will be. Retain removes their chunks.
func (s *Store) DropParts(before manifest.Position) error {
	var old []manifest.Hash
	s.mu.Lock()
	for h, p := range s.held {
		if p.Part && p.Before(before) {
			old = append(old, h)
		}
	}
	s.mu.Unlock()
	for _, h := range old {
		if err := s.remove(h); err != nil {
			return fmt.Errorf("drop parts: %w", err)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.disk.SyncDir(manifestDir)
}
