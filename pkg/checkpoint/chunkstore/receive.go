package chunkstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// ErrNotOffered says that a chunk belongs to nothing that was offered; offer it again.
var ErrNotOffered = fmt.Errorf("chunk of no offer: %w", ErrNotHeld)

// offer is a manifest, or a draft, on its way here. Its chunks are counted and have room.
type offer struct {
	g       schema.Generation // of the sender
	sizes   map[manifest.Hash]int64
	pins    *pins
	room    *room
	touched time.Time // guarded by s.mu
}

// Offer takes in a manifest, and returns the chunks that are missing here,
// which WriteChunk takes. Offered again when all are there it becomes held:
// nothing missing is the acknowledgement that the checkpoint is on this disk,
// verified and durable. ErrFenced if this node has seen a newer generation than g, the sender's;
// ErrBadManifest, ErrNoSpace.
func (s *Store) Offer(
	ctx context.Context, g schema.Generation, raw []byte,
) (missing []manifest.Hash, err error) {
	m, err := manifest.Decode(raw)
	if err != nil {
		return nil, err
	}
	if err := s.fenced(g); err != nil {
		return nil, err
	}
	h := manifest.Hash(sha256.Sum256(raw))
	o, err := s.offer(g, m, h)
	if err != nil {
		return nil, err
	}
	for c := range o.sizes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ok, err := s.ensure(c)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, c)
		}
	}
	if missing != nil {
		return missing, nil
	}
	if err := s.publish(ctx, g, encoded{m, raw, h}); err != nil {
		return nil, err
	}
	drop(s, s.offers, func(k manifest.Hash, _ *offer) bool { return k == h })
	// the manifest has its chunks now
	drop(s, s.drafts, func(p manifest.Position, _ *offer) bool { return p == m.Position() })
	return nil, nil
}

// offer finds or makes the offer of h.
func (s *Store) offer(g schema.Generation, m *manifest.Manifest, h manifest.Hash) (*offer, error) {
	now := time.Now()
	s.mu.Lock()
	o := s.offers[h]
	if o != nil {
		o.g, o.touched = max(o.g, g), now
	}
	s.mu.Unlock()
	if o != nil {
		return o, nil
	}
	o = &offer{g: g, sizes: map[manifest.Hash]int64{}, pins: s.pins(), touched: now}
	var todo int64
	for c, size := range m.DistinctChunks() {
		o.sizes[c] = size
		o.pins.add(c)
		s.mu.Lock()
		if !s.chunk(c).present {
			todo += size
		}
		s.mu.Unlock()
	}
	var err error
	if o.room, err = s.room(todo); err != nil {
		o.pins.release()
		return nil, err
	}
	s.mu.Lock()
	was := s.offers[h]
	if was == nil {
		s.offers[h] = o
		tell(s.incoming)
	}
	s.mu.Unlock()
	if was != nil { // another request was faster
		o.release()
		return was, nil
	}
	return o, nil
}

func (o *offer) release() {
	o.pins.release()
	o.room.release()
}

// drop forgets offers or drafts: what came of them stays until the next sweep.
func drop[K comparable](s *Store, offers map[K]*offer, which func(K, *offer) bool) {
	var old []*offer
	s.mu.Lock()
	maps.DeleteFunc(offers, func(k K, o *offer) bool {
		if !which(k, o) {
			return false
		}
		old = append(old, o)
		return true
	})
	s.mu.Unlock()
	for _, o := range old {
		o.release()
	}
}

// WriteChunk takes a chunk of something offered. It trusts no sender: it hashes the bytes on their
// way to the disk. ErrDamaged if they are not h's, ErrNotOffered, ErrFenced, ErrNoSpace.
func (s *Store) WriteChunk(g schema.Generation, h manifest.Hash, r io.Reader) error {
	if err := s.fenced(g); err != nil {
		return err
	}
	size, room, err := s.wanted(h)
	if err != nil {
		return err
	}
	if ok, err := s.ensure(h); ok || err != nil {
		return err
	}
	temp, sum := s.disk.TempName(), sha256.New()
	f, err := s.disk.FillDirect(temp, 0o600,
		s.disk.From(io.TeeReader(filled{io.LimitReader(r, size+1)}, sum)))
	if err != nil {
		return err
	}
	if manifest.Hash(sum.Sum(nil)) != h {
		return errors.Join(fmt.Errorf("chunk %v: %w", h, ErrDamaged), f.Close(), s.disk.Discard(temp))
	}
	if err := s.placeChunk(f, temp, h); err != nil {
		return err
	}
	room.spend(size)
	return nil
}

// filled reads until the buffer is full: a network yields less at a time than is good to write.
type filled struct{ r io.Reader }

func (f filled) Read(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = f.r.Read(b[n:])
		n += k
	}
	return n, err
}

func (s *Store) wanted(h manifest.Hash) (int64, *room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, offers := range []iter.Seq[*offer]{maps.Values(s.offers), maps.Values(s.drafts)} {
		for o := range offers {
			if size, ok := o.sizes[h]; ok {
				o.touched = time.Now()
				return size, o.room, nil
			}
		}
	}
	return 0, nil, ErrNotOffered
}

// OpenChunk opens a chunk that is on disk and true to its hash: ErrNotHeld otherwise.
func (s *Store) OpenChunk(h manifest.Hash) (io.ReadSeekCloser, error) {
	if ok, err := s.ensure(h); !ok || err != nil {
		return nil, errors.Join(fmt.Errorf("chunk %v: %w", h, ErrNotHeld), err)
	}
	return s.disk.FS.Open(layout.ChunkPath(h))
}
