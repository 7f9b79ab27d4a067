// Package late keeps checkpoints that came too late for their job: it was made again, or went on, from
// an older one. It works on the directory of a store that is not open.
package late

import (
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

// Keep is called before the store in dir becomes that of a job that was made again from the
// checkpoint with the number adopted; 0: from none. A newer commit on this disk is kept, and
// offered as soon as the record has a head: the job starts from it only if the operator asks. So are
// parts of one: all of it is there when the nodes with the others come.
func Keep(dir string, adopted manifest.Number) error {
	return inside(dir, func(t dirfs.FS) error { return KeepIn(t, adopted) })
}

// Truncate is Keep for a job that went on under its uid from an older state, with head as its newest
// commit by now. The commits above head, and those of later steps, are not of that job: their numbers are
// given again.
func Truncate(dir string, head manifest.Head) error {
	return inside(dir, func(t dirfs.FS) error { return TruncateIn(t, head) })
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

// KeepIn is Keep in a tree that is open.
func KeepIn(t dirfs.FS, adopted manifest.Number) error {
	return keepIn(t, func(h manifest.Head) bool { return h.Number > adopted })
}

// keepIn keeps the newest commit of those that are later, if it is on this disk.
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
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		return dirfs.NewDisk(t, layout.Temp+"/late-").WriteFile(".", layout.Late, b)
	}
	return nil
}

// TruncateIn is Truncate in a tree that is open.
func TruncateIn(t dirfs.FS, head manifest.Head) error {
	later := func(h manifest.Head) bool { return h.Number > head.Number || h.LaterStep(head) }
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
