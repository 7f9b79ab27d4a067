package chunkstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// lateFile has the record of a checkpoint that came too late, until it is offered: whatever becomes
// of the process.
const lateFile = "late"

// KeepLate is called before the store in dir becomes that of a job that was made again from the
// checkpoint with the number adopted; 0: from none. A newer commit on this disk is kept, and
// offered as soon as the record has a head: the job starts from it only if the operator asks. So are
// parts of one: all of it is there when the nodes with the others come.
func KeepLate(dir string, adopted manifest.Number) error {
	return inside(dir, func(t dirfs.FS) error { return KeepLateIn(t, adopted) })
}

// ComeLate is KeepLate for a job that went on under its uid from an older state, with head as its
// newest commit. The record of commits here ends with head: the numbers above it are given again.
func ComeLate(dir string, head manifest.Number) error {
	return inside(dir, func(t dirfs.FS) error { return ComeLateIn(t, head) })
}

// inside opens the store in dir for do, if there is one.
func inside(dir string, do func(dirfs.FS) error) error {
	t, err := dirfs.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep what came too late: %w", err)
	}
	return errors.Join(do(t), t.Close())
}

// KeepLateIn is KeepLate in a tree that is open.
func KeepLateIn(t dirfs.FS, adopted manifest.Number) error {
	s := NewReadOnly(t)
	heads, noHeads := s.Heads()
	held, noHeld := s.Held()
	inParts, noParts := s.Partial()
	if err := errors.Join(noHeads, noHeld, noParts); err != nil {
		return err
	}
	for _, h := range slices.Backward(heads) {
		if h.Number <= adopted {
			break
		}
		if slices.Contains(held, h.Manifest) || slices.Contains(inParts, h.Manifest) {
			b, err := json.Marshal(h)
			if err != nil {
				return err
			}
			return s.disk.WriteFile(".", lateFile, b)
		}
	}
	return nil
}

// ComeLateIn is ComeLate in a tree that is open.
func ComeLateIn(t dirfs.FS, head manifest.Number) error {
	s := NewReadOnly(t)
	heads, err := s.Heads()
	above := slices.IndexFunc(heads, func(h manifest.Head) bool { return h.Number > head })
	if err != nil || above < 0 {
		return err
	}
	if err := KeepLateIn(t, head); err != nil {
		return err
	}
	b, err := json.Marshal(heads[:above])
	if err != nil {
		return err
	}
	return s.disk.WriteFile(".", headsFile, b)
}

// Late reads lateFile; nil if there is none. One that is damaged is removed.
func (s *Store) Late() (*manifest.Head, error) {
	b, err := s.disk.ReadFile(lateFile, manifest.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what came too late: %w", err)
	}
	var h manifest.Head
	if json.Unmarshal(b, &h) != nil || h.Validate() != nil {
		return nil, s.DropLate()
	}
	return &h, nil
}

// DropLate forgets the late checkpoint: it is in the record.
func (s *Store) DropLate() error { return s.disk.Discard(lateFile) }
