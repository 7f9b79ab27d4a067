package chunkstore

import (
	"context"
	"fmt"
	"io"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Verify reads every byte of a checkpoint from disk: ErrDamaged with the hashes of the chunks that
// are bad or gone, which a Fetch brings back; ErrNotHeld.
func (s *Store) Verify(ctx context.Context, h manifest.Hash) error {
	m, err := s.Manifest(h)
	if err != nil {
		return err
	}
	var bad []manifest.Hash
	for c := range m.DistinctChunks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := s.VerifyChunk(c)
		if err != nil {
			return err
		}
		if !ok {
			bad = append(bad, c)
		}
	}
	if bad != nil {
		return fmt.Errorf("checkpoint %v: %w: %d chunks: %v", h, ErrDamaged, len(bad), bad[:min(len(bad), 8)])
	}
	return nil
}

// Contents are the chunks of a file in this state, if it was put, restored or compared.
func (s *Store) Contents(state dirfs.FileState) (manifest.Chunks, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks, ok := s.known[state]
	return chunks, ok
}

// NoteContents remembers the chunks of a file in this state.
func (s *Store) NoteContents(state dirfs.FileState, chunks manifest.Chunks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[state] = chunks
}

// ReadChunk fills dst with a chunk and verifies its hash: ErrDamaged.
func (s *Store) ReadChunk(h manifest.Hash, dst []byte) error {
	f, err := s.disk.FS.Open(layout.ChunkPath(h))
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, dst)
	}
	if err != nil && !layout.Lost(err) {
		return err
	}
	if err != nil || manifest.Sum(dst) != h {
		s.mu.Lock()
		c := s.chunk(h)
		c.present, c.verified = false, false
		s.mu.Unlock()
		return fmt.Errorf("chunk %v: %w", h, ErrDamaged)
	}
	return nil
}
