package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// chunk is what is known of one chunk. Whoever needs it counts: each manifest
// on disk, each transfer. Sweep removes those that nobody counts.
type chunk struct {
	refs     int
	present  bool // on disk
	verified bool // by this process, from disk or before it was written
}

func chunkPath(h Hash) string {
	s := h.String()
	return path.Join(chunkDir, s[:2], s)
}

// chunk is the entry of h; mu is held.
func (s *Store) chunk(h Hash) *chunk {
	c := s.chunks[h]
	if c == nil {
		c = &chunk{}
		s.chunks[h] = c
	}
	return c
}

// pins counts the chunks that a transfer needs, so that no sweep takes them
// before its manifest counts them.
type pins struct {
	s   *Store
	set map[Hash]bool // guarded by s.mu
}

func (s *Store) pins() *pins { return &pins{s, map[Hash]bool{}} }

func (p *pins) add(h Hash) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.set[h] {
		p.set[h] = true
		p.s.chunk(h).refs++
	}
}

func (p *pins) release() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for h := range p.set {
		p.s.chunk(h).refs--
	}
	clear(p.set)
}

// ensure reports whether the chunk is on disk and true to its hash. One that
// is not is forgotten, so that it is written or fetched anew.
func (s *Store) ensure(h Hash) (bool, error) {
	s.mu.Lock()
	c := *s.chunk(h)
	s.mu.Unlock()
	if !c.present || c.verified {
		return c.present, nil
	}
	return s.verifyChunk(h)
}

// verifyChunk reads the chunk from disk, whatever is believed of it.
func (s *Store) verifyChunk(h Hash) (bool, error) {
	sum, err := s.disk.sum(chunkPath(h))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("verify chunk: %w", err)
	}
	good := err == nil && sum == h
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk(h)
	c.present, c.verified = good, good
	return good, nil
}

// writeChunk stores data, whose hash is h. Its bytes are durable then, its
// name when syncChunks has passed.
func (s *Store) writeChunk(h Hash, data []byte) error {
	temp, err := s.disk.writeTemp(bytes.NewReader(data), 0o600)
	if err != nil {
		return err
	}
	return s.placeChunk(temp, h)
}

func (s *Store) placeChunk(temp string, h Hash) error {
	to := chunkPath(h)
	dir := path.Dir(to)
	if err := s.disk.Mkdir(dir, 0o700); err != nil {
		return noSpace(errors.Join(err, s.disk.discard(temp)))
	}
	if err := s.disk.move(temp, to); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk(h)
	c.present, c.verified = true, true
	s.unsynced[dir] = append(s.unsynced[dir], h)
	s.unsynced[chunkDir] = append(s.unsynced[chunkDir], h)
	return nil
}

// syncChunks makes the names of the manifest's chunks durable. One at a time:
// who finds nothing to sync relies on a sync that is over.
func (s *Store) syncChunks(m *Manifest) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	dirs := map[string]bool{chunkDir: true}
	for h := range m.chunks() {
		dirs[path.Dir(chunkPath(h))] = true
	}
	for dir := range dirs {
		s.mu.Lock()
		names, ok := s.unsynced[dir]
		delete(s.unsynced, dir) // first: a chunk that comes meanwhile puts it back
		s.mu.Unlock()
		if !ok {
			continue
		}
		if err := s.disk.syncDir(dir); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, h := range names {
				c := s.chunk(h)
				c.present, c.verified = false, false
			}
			s.unsynced[dir] = append(s.unsynced[dir], names...)
			return err
		}
	}
	return nil
}
