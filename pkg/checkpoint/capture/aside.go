package capture

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

const asideDir = ".elastic-uncommitted" // what the generation before left, until the next time

// print is what tells one state of an entry from another, across restarts.
func (e *entry) print() string {
	sum := sha256.New()
	for _, f := range e.files {
		fmt.Fprintln(sum, f.Path, f.State.Ino, f.State.Size, f.State.Mtime)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// takeInventory remembers what is in the directory when the workers of a generation start.
func takeInventory(s *chunkstore.Store, found map[string]*entry) error {
	prints := map[string]string{}
	for name, e := range found {
		prints[name] = e.print()
	}
	return s.SaveInventory(prints)
}

// TakeInventory remembers what is in dir before the workers of a generation start,
// on a node that captures nothing.
func TakeInventory(s *chunkstore.Store, dir Dir) error {
	t, err := dir.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	found, err := look(t, dir.within())
	if err != nil {
		return err
	}
	return takeInventory(s, found.entries)
}

// TakeInventory remembers what was in the directory when the watch began, or at the last save.
func (c *Watcher) TakeInventory(s *chunkstore.Store) error { return takeInventory(s, c.base) }

// TakeInventory remembers what was in the directory when the save was found.
func (p *Picture) TakeInventory(s *chunkstore.Store) error { return takeInventory(s, p.seen) }

// SetAside moves what a dead generation left uncommitted in the directory out of the way of one
// that starts from m, or from scratch if m is nil. What is not as it was at the last commit, or
// before the first worker started, and is not in m, may be of any step: a script that looks for
// its files by itself would begin there, on this node only.
func SetAside(s *chunkstore.Store, t dirfs.FS, dir Dir, m *manifest.Manifest) error {
	prints, err := s.Inventory()
	if err != nil || prints == nil {
		return err // no worker of this job ever ran here, or nothing is known any more
	}
	found, err := look(t, dir.within())
	if err != nil {
		return err
	}
	var left []string
	for name, e := range found.entries {
		if prints[name] != e.print() && (m == nil || !m.Contains(name)) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	to := dirfs.NewScratchDisk(t)
	if err := to.RemoveAll(asideDir); err != nil {
		return err
	}
	slices.Sort(left)
	for _, name := range left {
		if err := t.Mkdir(path.Join(asideDir, path.Dir(name)), 0o700); err != nil {
			return err
		}
		if err := t.Rename(name, path.Join(asideDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Scratch readies dir for a generation that starts without a checkpoint.
func Scratch(s *chunkstore.Store, dir Dir) error {
	t, err := dir.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	if err := chunkstore.CleanRestore(dirfs.NewScratchDisk(t)); err != nil {
		return err
	}
	return SetAside(s, t, dir, nil)
}
