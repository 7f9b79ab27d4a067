// Package late keeps late checkpoints: their job was made again, or continued, from an older one.
// It works on the directory of a store that is not open.
package late

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Keep must be called before the store in dir is used for a job that was made again from checkpoint
// adopted; the zero Head: from none. It keeps the newest later commit on this disk, also if the disk
// has only parts of it. The commit is offered when the record has a head. The job starts from it only
// if the operator asks.
func Keep(dir string, adopted manifest.Head) error {
	return withStore(dir, func(t dirfs.FS) error { return KeepIn(t, adopted) })
}

// Truncate is Keep for a job that continued under its uid from an older state. head is its newest
// commit now. It removes the records of commits that have larger numbers than head, were made
// later, or are of later steps, because their numbers are used again.
func Truncate(dir string, head manifest.Head) error {
	return withStore(dir, func(t dirfs.FS) error { return TruncateIn(t, head) })
}

// withStore calls do with the store in dir, if there is one.
func withStore(dir string, do func(dirfs.FS) error) error {
	t, err := dirfs.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep late checkpoints: %w", err)
	}
	return errors.Join(do(t), t.Close())
}

// KeepIn is Keep in an open tree.
func KeepIn(t dirfs.FS, adopted manifest.Head) error {
	return keepIn(t, func(h manifest.Head) bool { return h.Number > adopted.Number || adopted.Before(h) })
}

// keepIn keeps the newest commit for which later is true, if it is on this disk.
func keepIn(t dirfs.FS, later func(manifest.Head) bool) error {
	s := readonly.New(t)
	heads, noHeads := s.Heads()
	held, noHeld := s.Held()
	inParts, noParts := s.Partial()
	if err := errors.Join(noHeads, noHeld, noParts); err != nil {
		return err
	}
	for _, h := range slices.Backward(heads) {
		if !later(h) || !slices.Contains(held, h.Manifest) && !slices.Contains(inParts, h.Manifest) {
			continue
		}
		if h.Parts == nil && !slices.Contains(held, h.Manifest) {
			if err := nameParts(s, &h); err != nil {
				return err
			}
		}
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		return dirfs.NewDisk(t, layout.Temp+"/late-").WriteFile(".", layout.Late, b)
	}
	return nil
}

// nameParts sets the parts of a commit of which this disk has only some. Its record names none if they
// were brought together before the commit.
func nameParts(s *readonly.Store, h *manifest.Head) error {
	m, err := s.ReadManifest(context.Background(), h.Manifest)
	if m == nil {
		return err
	}
	h.Parts = manifest.Unheld(m.Parts)
	return nil
}

// TruncateIn is Truncate in an open tree.
func TruncateIn(t dirfs.FS, head manifest.Head) error {
	later := func(h manifest.Head) bool {
		return h.Number > head.Number || head.Before(h) || h.LaterStep(head)
	}
	heads, err := readonly.New(t).Heads()
	if err != nil || !slices.ContainsFunc(heads, later) {
		return err
	}
	if err := keepIn(t, later); err != nil {
		return err
	}
	b, err := json.Marshal(slices.DeleteFunc(heads, later))
	if err != nil {
		return err
	}
	return dirfs.NewDisk(t, layout.Temp+"/late-").WriteFile(".", layout.Heads, b)
}
