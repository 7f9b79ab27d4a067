package capture

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
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

// takeInventory remembers what is in the directory when the workers of a generation start, and of
// which one that is.
func takeInventory(s *chunkstore.Store, found map[string]*entry, of manifest.Stamp) error {
	i, err := s.Inventory()
	if err != nil {
		return err
	}
	if i == nil {
		i = &chunkstore.Inventory{}
	}
	i.Prints, i.Generation, i.UID = prints(found), of.Generation, of.UID
	return s.SaveInventory(i)
}

func prints(found map[string]*entry) map[string]string {
	all := map[string]string{}
	for name, e := range found {
		all[name] = e.print()
	}
	return all
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
	return takeInventory(s, found.entries, manifest.Stamp{})
}

// TakeInventory remembers what was in the directory when the watch began, or at the last save.
func (c *Watcher) TakeInventory(s *chunkstore.Store) error {
	return takeInventory(s, c.base, c.stamp)
}

// TakeInventory remembers what was in the directory when the save was found.
func (p *Picture) TakeInventory(s *chunkstore.Store) error {
	return takeInventory(s, p.seen, p.Save.Stamp)
}

// SetAside moves what a dead generation left in the directory out of the way of one that starts
// from m, or from scratch if m is nil. An entry that is not as it was at the last commit, and is
// not in m, may be of any step; one that was committed after m is of a later step. A script that
// looks for its files by itself would begin there, on this node only. What was there before the
// first worker stays.
func SetAside(s *chunkstore.Store, t dirfs.FS, dir Dir, m *manifest.Manifest) error {
	was, err := s.Inventory()
	if err != nil {
		return err
	}
	found, err := look(t, dir.within())
	if err != nil {
		return err
	}
	if m != nil {
		maps.DeleteFunc(found.entries, func(name string, _ *entry) bool { return m.Contains(name) })
	}
	if was == nil { // no worker of this job ever ran here
		return s.SaveInventory(&chunkstore.Inventory{Before: prints(found.entries)})
	}
	later, err := laterThan(s, m)
	if err != nil {
		return err
	}
	var left []string
	for name, e := range found.entries {
		if was.Before[name] != e.print() && (was.Prints[name] != e.print() || later(e)) {
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

// laterThan returns a function that reports whether an entry is of a later step than m: it has a
// larger number than the entry of m that is named alike, or is in a checkpoint on this disk that
// comes after m. Checkpoints are in the order of their steps where both have one: a store that was
// set back gives numbers of generations again. From scratch, every entry is later.
func laterThan(s *chunkstore.Store, m *manifest.Manifest) (func(*entry) bool, error) {
	if m == nil {
		return func(*entry) bool { return true }, nil
	}
	var after []*manifest.Manifest
	for h, at := range s.Positions() {
		n, err := s.Manifest(h)
		switch {
		case errors.Is(err, chunkstore.ErrNotHeld), errors.Is(err, chunkstore.ErrDamaged):
			continue // its files are unknown
		case err != nil:
			return nil, err
		case m.Step != nil && n.Step != nil && *m.Step < *n.Step,
			(m.Step == nil || n.Step == nil) && m.Position().Before(at):
			after = append(after, n)
		}
	}
	numbers := map[string]int64{} // by the name without its number
	for _, f := range m.Files {
		e := &entry{name: m.Unit(f)}
		if n, ok := e.order(); ok {
			numbers[e.family()] = n
		}
	}
	return func(e *entry) bool {
		n, counts := e.order()
		last, same := numbers[e.family()]
		return counts && same && n > last ||
			slices.ContainsFunc(after, func(n *manifest.Manifest) bool { return n.Contains(e.name) })
	}, nil
}

// Scratch readies dir for a generation that starts without a checkpoint.
func Scratch(s *chunkstore.Store, dir Dir) error {
	t, err := dir.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	if err := restore.Clean(dirfs.NewScratchDisk(t)); err != nil {
		return err
	}
	return SetAside(s, t, dir, nil)
}
