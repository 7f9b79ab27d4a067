package chunkstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Brought returns the record of the checkpoint of an earlier job (see readonly.BringIn), or nil. It
// removes a damaged record.
func (s *Store) Brought() (*manifest.Head, error) {
	b, err := s.disk.ReadFile(readonly.Brought, manifest.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of the brought checkpoint: %w", err)
	}
	var h manifest.Head
	if json.Unmarshal(b, &h) != nil || h.Validate() != nil {
		return nil, s.disk.Discard(readonly.Brought)
	}
	return &h, nil
}

// DropBrought removes that record, when the job has begun. If the job began from another checkpoint, it removes
// this one too: the directory aside keeps it, and here it could be taken for a capture of this job.
func (s *Store) DropBrought(h manifest.Head, committed []manifest.Head) error {
	if slices.ContainsFunc(committed, func(c manifest.Head) bool { return c.Manifest == h.Manifest }) {
		return s.disk.Discard(readonly.Brought)
	}
	all := []manifest.Hash{h.Manifest}
	for _, p := range h.Parts {
		all = append(all, p.Manifest)
	}
	for _, h := range all {
		if err := s.remove(h); err != nil {
			return fmt.Errorf("drop the brought checkpoint: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.disk.Discard(path.Join(readonly.Partial, h.Manifest.String()))
	err = errors.Join(err, s.disk.SyncDir(readonly.Manifests), s.disk.SyncDir(readonly.Partial))
	if err != nil {
		return fmt.Errorf("drop the brought checkpoint: %w", err)
	}
	delete(s.partial, h.Manifest)
	s.tell()
	return s.disk.Discard(readonly.Brought)
}
