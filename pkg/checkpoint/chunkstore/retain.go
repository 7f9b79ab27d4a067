package chunkstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Retain removes what no record needs from this disk, and records the commits. seen is the newest
// generation that this node knew before committed was read. If the node knows a newer one now,
// Retain removes nothing, because the record may be old (ErrFenced). It can be interrupted at any
// point: a manifest is removed before its chunks, and the next call removes chunks that are left.
func (s *Store) Retain(
	seen schema.Generation, committed []manifest.Head, pinned []manifest.Hash, now time.Time,
) error {
	if err := s.Raise(seen); err != nil {
		return err
	}
	s.expire(now)
	s.mu.Lock()
	disk := manifest.OnDisk{Held: s.held, Partial: s.partial, Heads: s.heads}
	k := manifest.Keep(disk, committed, seen, pinned)
	drop := k.Garbage(s.held)
	s.mu.Unlock()
	if err := s.NoteCommitted(committed); err != nil {
		return err
	}
	if err := errors.Join(s.retainPartial(k), s.retainDamaged(k)); err != nil {
		return err
	}
	for _, h := range drop {
		if err := s.remove(h); err != nil {
			return fmt.Errorf("retain: %w", err)
		}
	}
	if len(drop) > 0 {
		if err := s.disk.SyncDir(readonly.Manifests); err != nil {
			return err
		}
		s.tell()
	}
	return s.sweep()
}

// offerIdle is after how long without a chunk an offer or a draft is dropped.
const offerIdle = 10 * time.Minute

// expire drops offers and drafts whose sender is gone.
func (s *Store) expire(now time.Time) {
	expired := func(o *offer) bool { return o.g < s.generation || now.Sub(o.touched) > offerIdle }
	drop(s, s.offers, func(_ manifest.Hash, o *offer) bool { return expired(o) })
	drop(s, s.drafts, func(_ manifest.Position, o *offer) bool { return expired(o) })
}

// remove deletes a manifest from the disk. The next sweep removes its chunks.
func (s *Store) remove(h manifest.Hash) error {
	m, err := s.readManifest(h)
	if errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		m = &manifest.Manifest{} // its chunks stay counted until the store is opened again
	} else if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.held[h]; !ok {
		return nil
	}
	if err := s.disk.Discard(path.Join(readonly.Manifests, h.String())); err != nil {
		return err
	}
	delete(s.held, h)
	for c := range m.DistinctChunks() {
		s.chunk(c).refs--
	}
	return nil
}

// sweep removes chunks that nothing needs. It removes none while a needed manifest is damaged,
// because the chunks of that manifest are unknown.
func (s *Store) sweep() error {
	var loose []manifest.Hash
	s.mu.Lock()
	keep := s.unknownChunks()
	for h, c := range s.chunks {
		if c.refs == 0 && !keep {
			loose = append(loose, h)
		}
	}
	s.mu.Unlock()
	for _, h := range loose {
		if err := s.sweepChunk(h); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return nil
}

func (s *Store) sweepChunk(h manifest.Hash) error {
	s.mu.Lock() // held until the chunk is removed, so that nothing starts to need it meanwhile
	defer s.mu.Unlock()
	c := s.chunks[h]
	if c == nil || c.refs > 0 {
		return nil
	}
	if err := s.disk.Discard(readonly.ChunkPath(h)); err != nil {
		return err
	}
	delete(s.chunks, h)
	if f := s.unsynced[h]; f != nil {
		delete(s.unsynced, h)
		return f.Close()
	}
	return nil
}

// NoteCommitted writes the commit records of the checkpoints on this disk to a file. If the store
// of the job is lost, the file says which checkpoint is the newest.
func (s *Store) NoteCommitted(committed []manifest.Head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noteCommitted(committed)
}

// noteCommitted is NoteCommitted with mu held.
func (s *Store) noteCommitted(committed []manifest.Head) error {
	var keep []manifest.Head
	for _, c := range committed {
		if s.hasManifest(c.Manifest) {
			keep = append(keep, c)
		}
	}
	slices.SortFunc(keep, manifest.Head.Compare)
	if slices.EqualFunc(keep, s.heads, func(a, b manifest.Head) bool {
		return a.Compare(b) == 0 && a.Manifest == b.Manifest
	}) {
		return nil
	}
	b, err := json.Marshal(keep)
	if err != nil {
		return err
	}
	if err := s.disk.WriteFile(".", readonly.Heads, b); err != nil {
		return err
	}
	s.heads = keep
	s.tell()
	return nil
}

// AddCommitted records one commit before the record is read again, in case this node and the store
// then fail.
func (s *Store) AddCommitted(h manifest.Head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(s.heads),
		func(o manifest.Head) bool { return o.Number == h.Number })
	return s.noteCommitted(append(others, h))
}

// HasUncommitted reports whether this disk has a manifest without a commit record.
func (s *Store) HasUncommitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := s.neededParts()
	for h := range s.held {
		if !needed[h] && !slices.ContainsFunc(s.heads,
			func(c manifest.Head) bool { return c.Manifest == h }) {
			return true
		}
	}
	return false
}

// Numbers lists the committed checkpoints that are complete on this disk, oldest first.
func (s *Store) Numbers() (have []manifest.Number) {
	if s.disk.Abandoned() != nil {
		return nil // the next agent does not find it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heads {
		if _, ok := s.held[h.Manifest]; ok {
			have = append(have, h.Number)
		}
	}
	return have
}

// Newest returns the newest committed checkpoint of which this disk has all or parts.
func (s *Store) Newest() (manifest.Head, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range slices.Backward(s.heads) {
		if s.knows(h.Manifest) {
			return h, true
		}
	}
	return manifest.Head{}, false
}
