package chunkstore

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// chunk is the state of one chunk. refs counts the manifests and transfers that need it. sweep
// removes chunks without refs.
type chunk struct {
	refs     int
	present  bool // on disk
	verified bool // by this process
}

// chunk returns the state of h. mu is held.
func (s *Store) chunk(h manifest.Hash) *chunk {
	c := s.chunks[h]
	if c == nil {
		c = &chunk{}
		s.chunks[h] = c
	}
	return c
}

// pins counts chunks for a transfer, so that sweep keeps them until their manifest counts them.
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

// hold is add with the store's mu held.
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

// ensure reports whether the chunk is on disk and verified. It forgets a damaged one, so that it is
// written or fetched again.
func (s *Store) ensure(h manifest.Hash) (bool, error) {
	s.mu.Lock()
	c := *s.chunk(h)
	s.mu.Unlock()
	if !c.present || c.verified {
		return c.present, nil
	}
	return s.VerifyChunk(h)
}

// VerifyChunk reads the chunk from disk, even if it was verified before.
func (s *Store) VerifyChunk(h manifest.Hash) (bool, error) {
	p := s.pins() // so that sweep keeps it meanwhile
	defer p.release()
	p.add(h)
	s.mu.Lock()
	before := *s.chunk(h)
	s.mu.Unlock()
	sum, err := s.disk.Sum(readonly.ChunkPath(h))
	if err != nil && !readonly.Lost(err) {
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

// writeChunk stores data, whose hash is h.
func (s *Store) writeChunk(h manifest.Hash, data []byte) error {
	temp := s.disk.TempName()
	f, err := s.disk.FillDirect(temp, 0o600, s.disk.From(bytes.NewReader(data)))
	if err != nil {
		return err
	}
	return s.placeChunk(f, temp, h)
}

// placeChunk gives a file its name. File and name become durable only at flush, because a sync for
// each chunk is too slow. After a crash the name may have other bytes. So ensure verifies each
// chunk, and manifests are written after a flush.
func (s *Store) placeChunk(f dirfs.File, temp string, h manifest.Hash) error {
	// Held during the rename: if a chunk is written twice, the file that stays must be the one that
	// is synced.
	s.mu.Lock()
	// A flush may be syncing the file with this name, so it must not be replaced.
	if c := s.chunk(h); c.present && c.verified {
		s.mu.Unlock()
		return errors.Join(f.Close(), s.disk.Discard(temp))
	}
	if err := s.disk.Move(temp, readonly.ChunkPath(h)); err != nil {
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
		err = was.Close() // the same bytes, written twice at the same time; the later file has the name
	}
	if many {
		err = errors.Join(err, s.flush())
	}
	return err
}

// maxUnsynced is the largest number of open files, which also limits the work of one flush.
const maxUnsynced = 32

// flush makes all chunks and their names durable. Only one flush runs at a time, so a caller that
// finds nothing to sync can rely on the previous one.
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
	err := s.disk.CountFailure(g.Wait()) // one failure, however many chunks it affects
	if renamed {
		if syncErr := s.disk.SyncDir(readonly.Chunks); syncErr != nil {
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

const syncers = 8 // at the same time: the file system combines them into one commit

// forget discards a chunk that may not be durable. It is written or fetched again.
func (s *Store) forget(h manifest.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk(h)
	c.present, c.verified = false, false
	return s.disk.Discard(readonly.ChunkPath(h))
}
