package chunkstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Partial describes a checkpoint of which a node keeps parts.
type Partial struct {
	Generation schema.Generation // of the node that asks
	Manifest   []byte
	Parts      []manifest.Hash // that the node has
}

// HoldParts keeps the manifest of a checkpoint of which this node has parts. The parts stay while
// the checkpoint is committed or may be. nil acknowledges that manifest and parts are verified and
// durable. Errors: ErrNotHeld if a part is missing; ErrFenced, ErrBadManifest, ErrNoSpace.
func (s *Store) HoldParts(ctx context.Context, x Partial) error {
	m, err := manifest.Decode(x.Manifest)
	if err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), s.disk.Abandoned(), s.fenced(x.Generation)); err != nil {
		return err
	}
	h := manifest.Sum(x.Manifest)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range x.Parts {
		at, held := s.held[p]
		if !held || !at.Part {
			return fmt.Errorf("part %v: %w", p, ErrNotHeld)
		}
		if !slices.Contains(m.Parts, p) {
			return fmt.Errorf("%w: part %v is not of it", manifest.ErrBadManifest, p)
		}
	}
	if _, there := s.partial[h]; there {
		if _, err := s.RawManifest(h); err == nil {
			return nil
		}
	}
	if err := s.disk.WriteFile(readonly.Partial, h.String(), x.Manifest); err != nil {
		return fmt.Errorf("keep the manifest: %w", err)
	}
	if s.damaged[h].dir == readonly.Partial {
		s.dropDamaged(h)
	}
	s.partial[h] = manifest.Partial{At: m.Position(), Parts: m.Parts}
	s.tell()
	return nil
}

// loadPartial loads the manifests that HoldParts kept. Damaged parts are fetched from another
// holder.
func (s *Store) loadPartial() error {
	return s.eachManifest(readonly.Partial, func(h manifest.Hash, m *manifest.Manifest) {
		if m == nil {
			s.addDamaged(h, damage{dir: readonly.Partial})
			return
		}
		s.partial[h] = manifest.Partial{At: m.Position(), Parts: m.Parts}
	})
}

// HasManifest reports whether the manifest of a checkpoint is on this disk, with all chunks, with
// parts, or damaged.
func (s *Store) HasManifest(h manifest.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasManifest(h)
}

// hasManifest is HasManifest; mu is held.
func (s *Store) hasManifest(h manifest.Hash) bool {
	_, damaged := s.damaged[h]
	return damaged || s.knows(h)
}

// knows reports whether all or parts of a checkpoint are on this disk. mu is held.
func (s *Store) knows(h manifest.Hash) bool {
	_, whole := s.held[h]
	_, parts := s.partial[h]
	return whole || parts
}

// InParts returns the captures of generation g of which this disk has parts.
func (s *Store) InParts(g schema.Generation) (all []manifest.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, p := range s.partial {
		if p.At.Generation == g {
			all = append(all, h)
		}
	}
	return all
}

// DropParts removes parts of saves that were captured before a position, because they were
// committed or never will be. The newest part of each other node stays, and so do parts of
// checkpoints that are committed or may be. Retain later removes the chunks.
func (s *Store) DropParts(before manifest.Position) error {
	s.mu.Lock()
	old := manifest.OldParts(s.held, s.neededParts(), before)
	s.mu.Unlock()
	for _, h := range old {
		if err := s.remove(h); err != nil {
			return fmt.Errorf("drop parts: %w", err)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.disk.SyncDir(readonly.Manifests)
}

// neededParts returns the parts of the checkpoints in partial. mu is held.
func (s *Store) neededParts() map[manifest.Hash]bool {
	needed := map[manifest.Hash]bool{}
	for _, p := range s.partial {
		for _, h := range p.Parts {
			needed[h] = true
		}
	}
	for _, c := range s.heads {
		for _, p := range c.Parts {
			needed[p.Manifest] = true
		}
	}
	return needed
}

// retainPartial removes manifests in partial that no record names or can name later.
func (s *Store) retainPartial(k manifest.Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dropped bool
	for h, p := range s.partial {
		if k.Needs(h, p.At) {
			continue
		}
		if err := s.disk.Discard(path.Join(readonly.Partial, h.String())); err != nil {
			return fmt.Errorf("retain: %w", err)
		}
		delete(s.partial, h)
		dropped = true
	}
	if !dropped {
		return nil
	}
	s.tell()
	return s.disk.SyncDir(readonly.Partial)
}
