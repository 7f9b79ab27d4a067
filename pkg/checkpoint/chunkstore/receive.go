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

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// ErrNotOffered means that a chunk belongs to no offer. The sender must offer again.
var ErrNotOffered = fmt.Errorf("chunk of no offer: %w", ErrNotHeld)

// offer is a manifest or a draft that is being received. Its chunks are pinned and have room.
type offer struct {
	g       schema.Generation // of the sender
	sizes   map[manifest.Hash]int64
	pins    *pins
	room    *room
	touched time.Time // guarded by s.mu
}

// Offer receives a manifest, and returns the chunks that are missing here, for WriteChunk. An offer
// without missing chunks makes the checkpoint held: it acknowledges that the checkpoint is verified
// and durable on this disk. g is the generation of the sender. Errors: ErrFenced if this node has
// seen a newer one, ErrBadManifest, ErrNoSpace.
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
	// the manifest now counts the chunks of the draft
	drop(s, s.drafts, func(p manifest.Position, _ *offer) bool { return p == m.Position() })
	return nil, nil
}

// offer returns the offer of h, and makes it if needed.
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
	if was != nil { // another request has made it meanwhile
		o.release()
		return was, nil
	}
	return o, nil
}

func (o *offer) release() {
	o.pins.release()
	o.room.release()
}

// drop removes offers or drafts. The next sweep removes their chunks.
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

// WriteChunk stores a chunk of an offer. It does not trust the sender, and hashes the bytes as it
// writes them. Errors: ErrDamaged if the hash is not h, ErrNotOffered, ErrFenced, ErrNoSpace.
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
		s.disk.From(io.TeeReader(fullReader{io.LimitReader(r, size+1)}, sum)))
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

// fullReader reads until the buffer is full, because reads from a network are too small to write.
type fullReader struct{ r io.Reader }

func (f fullReader) Read(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = f.r.Read(b[n:])
		n += k
	}
	return n, err
}

// wanted returns the size of a chunk that an offer or a draft expects, and the room for it. It fails
// with ErrNotOffered if none does.
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

// OpenChunk opens a verified chunk. It fails with ErrNotHeld if there is none.
func (s *Store) OpenChunk(h manifest.Hash) (io.ReadSeekCloser, error) {
	if ok, err := s.ensure(h); !ok || err != nil {
		return nil, errors.Join(fmt.Errorf("chunk %v: %w", h, ErrNotHeld), err)
	}
	return s.disk.FS.Open(readonly.ChunkPath(h))
}
