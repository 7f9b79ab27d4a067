package capture

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// A dead generation may leave in the checkpoint directory what was never
// committed: half a file, a step beyond the one that all resume from. A script
// that looks for its newest file itself would load it, on this node only.
// Before the next generation such entries are set aside. What was there
// before any worker of ours is not ours to move: inventory remembers it.
const asideDir = ".elastic-uncommitted" // the last ones, for who wants to look

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
func TakeInventory(s *chunkstore.Store, dir string) error {
	t, err := dirfs.Make(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	found, err := look(t, nil)
	if err != nil {
		return err
	}
	return takeInventory(s, found)
}

// TakeInventory remembers what was in the directory when the watch began, or at the last save.
func (c *Watcher) TakeInventory(s *chunkstore.Store) error { return takeInventory(s, c.base) }

// TakeInventory remembers what was in the directory when the save was found.
func (p *Picture) TakeInventory(s *chunkstore.Store) error { return takeInventory(s, p.seen) }

// SetAside moves what a dead generation left uncommitted in the directory out of the way of one
// that starts from m, or from scratch if m is nil.
func SetAside(s *chunkstore.Store, t dirfs.FS, m *manifest.Manifest) error {
	prints, err := s.Inventory()
	if err != nil || prints == nil {
		return err // no worker of this job ever ran here, or nothing is known any more
	}
	found, err := look(t, nil)
	if err != nil {
		return err
	}
	to := dirfs.NewScratchDisk(t)
	first := true
	for name, e := range found {
		if prints[name] == e.print() || m != nil && m.Contains(name) {
			continue
		}
		useless, err := e.useless(t, m)
		if err != nil {
			return err
		}
		if !useless {
			continue
		}
		if first {
			if err := to.RemoveAll(asideDir); err != nil {
				return err
			}
			if err := t.Mkdir(asideDir, 0o700); err != nil {
				return err
			}
			first = false
		}
		if err := t.Rename(name, path.Join(asideDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// useless reports whether an entry that nobody committed can only do harm: a
// step later than the one to resume from, or a file that is not whole.
func (e *entry) useless(t dirfs.Reader, m *manifest.Manifest) (bool, error) {
	if n, ok := e.order(); ok && m == nil {
		return true, nil
	} else if ok {
		for _, f := range m.Files {
			other := entry{name: manifest.TopOf(f.Path)}
			if k, ok := other.order(); ok && other.family() == e.family() && k > n {
				return false, nil
			}
		}
		return true, nil
	}
	for _, f := range e.files {
		w, err := check(t, f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if w == torn {
			return true, nil
		}
	}
	return false, nil
}

// Scratch readies dir for a generation that starts without a checkpoint.
func Scratch(s *chunkstore.Store, dir string) error {
	t, err := dirfs.Make(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := chunkstore.CleanRestore(dirfs.NewScratchDisk(t)); err != nil {
		return err
	}
	return SetAside(s, t, nil)
}
