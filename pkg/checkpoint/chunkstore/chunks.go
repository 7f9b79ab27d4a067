package chunkstore

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// chunk describes one chunk. refs counts its uses: each manifest on disk, each transfer. Sweep
// removes the chunks that nothing needs.
type chunk struct {
	refs     int
	present  bool // on disk
	verified bool // by this process, from disk or before it was written
}

// chunk is the entry of h; mu is held.
func (s *Store) chunk(h manifest.Hash) *chunk {
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
	set map[manifest.Hash]bool // guarded by s.mu
}

func (s *Store) pins() *pins { return &pins{s, map[manifest.Hash]bool{}} }

func (p *pins) add(h manifest.Hash) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.hold(h)
}

// hold is add; the store's mu is held.
func (p *pins) hold(h manifest.Hash) {
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
func (s *Store) ensure(h manifest.Hash) (bool, error) {
	s.mu.Lock()
	c := *s.chunk(h)
	s.mu.Unlock()
	if !c.present || c.verified {
		return c.present, nil
	}
	return s.VerifyChunk(h)
}

// VerifyChunk reads the chunk from disk, whatever is believed of it.
func (s *Store) VerifyChunk(h manifest.Hash) (bool, error) {
	p := s.pins() // no sweep takes it meanwhile
	defer p.release()
	p.add(h)
	s.mu.Lock()
	before := *s.chunk(h)
	s.mu.Unlock()
	sum, err := s.disk.Sum(layout.ChunkPath(h))
	if err != nil && !layout.Lost(err) {
		return false, fmt.Errorf("verify chunk: %w", err)
	}
	good := err == nil && sum == h
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk(h)
	if c.verified && !before.verified {
		return true, nil // it was written meanwhile
	}
	c.present, c.verified = good, good
	return good, nil
}

// writeChunk stores data, which has hash h.
func (s *Store) writeChunk(h manifest.Hash, data []byte) error {
	temp := s.disk.TempName()
	f, err := s.disk.FillDirect(temp, 0o600, s.disk.From(bytes.NewReader(data)))
	if err != nil {
		return err
	}
	return s.placeChunk(f, temp, h)
}

// placeChunk gives a file its name. Neither is durable before flush: a sync
// for each chunk would cost more than the bytes. After a crash its name may
// stand for other bytes; that is why a name alone is not believed (ensure), and why
// no manifest is written before flush.
func (s *Store) placeChunk(f dirfs.File, temp string, h manifest.Hash) error {
	// through the rename: of two files for one chunk, the one that stays is the one that is synced
	s.mu.Lock()
	// A flush under way syncs the file that is there: another one in its place would not be durable.
	if c := s.chunk(h); c.present && c.verified {
		s.mu.Unlock()
		return errors.Join(f.Close(), s.disk.Discard(temp))
	}
	if err := s.disk.Move(temp, layout.ChunkPath(h)); err != nil {
		s.mu.Unlock()
		return errors.Join(err, f.Close())
	}
	c := s.chunk(h)
	c.present, c.verified = true, true
	was := s.unsynced[h]
	s.unsynced[h] = f
	s.renamed = true
	many := len(s.unsynced) >= maxUnsynced
	s.mu.Unlock()
	var err error
	if was != nil {
		err = was.Close() // the same bytes, written twice at once; this name is the later one's
	}
	if many {
		err = errors.Join(err, s.flush())
	}
	return err
}

// maxUnsynced bounds the files that are open, and how much one flush writes.
const maxUnsynced = 32

// flush makes every chunk durable that is here now, and its name. One at a
// time: a caller that finds nothing to sync relies on a flush that is over.
func (s *Store) flush() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	files, renamed := s.unsynced, s.renamed
	s.unsynced, s.renamed = map[manifest.Hash]dirfs.File{}, false
	s.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(syncers)
	for h, f := range files {
		g.Go(func() error {
			err := errors.Join(f.Sync(), f.Close())
			if err != nil {
				return errors.Join(err, s.forget(h))
			}
			return nil
		})
	}
	err := s.disk.CountFailure(g.Wait()) // one failure, however many chunks it hit
	if renamed {
		if syncErr := s.disk.SyncDir(layout.Chunks); syncErr != nil {
			err = errors.Join(err, syncErr)
			for h := range files {
				err = errors.Join(err, s.forget(h))
			}
			s.mu.Lock()
			s.renamed = true
			s.mu.Unlock()
		}
	}
	if err != nil {
		return dirfs.WrapNoSpace(fmt.Errorf("sync chunks: %w", err))
	}
	return nil
}

const syncers = 8 // at once: the file system makes one commit of them

// forget discards a chunk that may not be durable: it is written or fetched anew.
func (s *Store) forget(h manifest.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk(h)
	c.present, c.verified = false, false
	return s.disk.Discard(layout.ChunkPath(h))
}
