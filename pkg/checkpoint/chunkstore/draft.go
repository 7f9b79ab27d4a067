package chunkstore

import (
	"fmt"
	"io"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Upload is a chunk that one node sends to another.
type Upload struct {
	Generation schema.Generation // the generation of the sender
	// Draft is the sequence of the save to which the chunk belongs, if its manifest was not offered
	// yet; else 0.
	Draft uint64
	Hash  manifest.Hash
	Size  int64
	Open  func() (io.ReadSeekCloser, error) // is called for each attempt
}

// WriteDraft is WriteChunk for a save that its node is still copying, so there is no manifest yet.
// at is the position of the save. The chunk stays until the manifest is held, until a later save
// starts (a node copies one at a time), or until no chunk of the save has arrived for ten minutes.
func (s *Store) WriteDraft(at manifest.Position, h manifest.Hash, size int64, r io.Reader) error {
	if size < 1 || size > manifest.ChunkSize {
		return fmt.Errorf("%w: a chunk of %d bytes", manifest.ErrBadManifest, size)
	}
	if err := s.fenced(at.Generation); err != nil {
		return err
	}
	if err := s.expect(at, h, size); err != nil {
		return err
	}
	return s.WriteChunk(at.Generation, h, r)
}

// expect counts a chunk of a draft, and reserves room for it.
func (s *Store) expect(at manifest.Position, h manifest.Hash, size int64) error {
	drop(s, s.drafts, func(p manifest.Position, _ *offer) bool { return p.Before(at) }) // abandoned
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.drafts {
		if at.Before(other) {
			return fmt.Errorf("chunk %v of a save that was given up: %w", h, ErrNotOffered)
		}
	}
	d := s.drafts[at]
	if d == nil {
		d = &offer{g: at.Generation, sizes: map[manifest.Hash]int64{}, pins: s.pins(), room: &room{s: s}}
		tell(s.incoming)
	}
	if _, again := d.sizes[h]; !again {
		if !s.chunk(h).present {
			if err := d.room.grow(size); err != nil {
				return err
			}
		}
		d.sizes[h] = size
		d.pins.hold(h)
	}
	d.touched = time.Now()
	s.drafts[at] = d
	return nil
}
