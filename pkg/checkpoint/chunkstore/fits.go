package chunkstore

import (
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Fits fails with ErrNoSpace if this disk has no room for the chunks of m that are missing here, or
// that of t has none for so many bytes of files. One disk must have room for both.
func (s *Store) Fits(m *manifest.Manifest, t dirfs.FS, files int64) error {
	var chunks int64
	s.mu.Lock()
	for c, size := range m.DistinctChunks() {
		if k := s.chunks[c]; k == nil || !k.present {
			chunks += size
		}
	}
	reserved := s.reserved
	s.mu.Unlock()
	if dirfs.SameDisk(s.disk.FS, t) {
		return s.disk.CheckSpace(chunks+files, reserved)
	}
	if err := s.disk.CheckSpace(chunks, reserved); err != nil {
		return err
	}
	return dirfs.NewScratchDisk(t).CheckSpace(files, 0)
}
