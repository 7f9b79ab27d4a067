package chunkstore

import (
	"context"
	"fmt"
	"io"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Verify reads every byte of a checkpoint from disk. It fails with ErrDamaged and the hashes of
// damaged or missing chunks, which Fetch restores, or with ErrNotHeld.
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

// Contents returns the chunks of a file in this state, if they are known from a put or a restore.
func (s *Store) Contents(state dirfs.FileState) (manifest.Chunks, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks, ok := s.known[state]
	return chunks, ok
}

// NoteContents records the chunks of a file in this state.
func (s *Store) NoteContents(state dirfs.FileState, chunks manifest.Chunks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[state] = chunks
}

// ReadChunk reads a chunk into dst and verifies it. It fails with ErrDamaged if the hash differs.
func (s *Store) ReadChunk(h manifest.Hash, dst []byte) error {
	f, err := s.disk.FS.Open(readonly.ChunkPath(h))
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, dst)
	}
	if err != nil && !readonly.Lost(err) {
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
