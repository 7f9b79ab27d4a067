package checkpoint

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// A dead generation may leave in the checkpoint directory what was never
// committed: half a file, a step beyond the one that all resume from. A script
// that looks for its newest file itself would load it, on this node only.
// Before the next generation such entries are set aside. What was there
// before any worker of ours is not ours to move: inventory remembers it.
const (
	asideDir      = ".elastic-uncommitted" // the last ones, for who wants to look
	inventoryFile = "inventory"
)

// print is what tells one state of an entry from another, across restarts.
func (e *entry) print() string {
	sum := sha256.New()
	for _, f := range e.files {
		fmt.Fprintln(sum, f.path, f.id.Ino, f.id.Size, f.id.Mtime)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// takeInventory remembers what is in the directory when the workers of a generation start.
func (s *Store) takeInventory(found map[string]*entry) error {
	prints := map[string]string{}
	for name, e := range found {
		prints[name] = e.print()
	}
	b, err := json.Marshal(prints)
	if err != nil {
		return err
	}
	return s.disk.writeFile(".", inventoryFile, b)
}

// Inventory remembers what is in dir before the workers of a generation
// start. Keeper.Start does so itself; nodes that capture nothing call this.
func (s *Store) Inventory(dir string) error {
	t, err := makeTree(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	found, err := look(t, nil)
	if err != nil {
		return err
	}
	return s.takeInventory(found)
}

// setAside moves what a dead generation left uncommitted out of the way of one
// that starts from m, or from scratch if m is nil.
func (s *Store) setAside(to *disk, m *Manifest) error {
	raw, err := s.disk.readFile(inventoryFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no worker of ours ever ran here
	}
	var prints map[string]string
	if err != nil || json.Unmarshal(raw, &prints) != nil {
		return err // nothing is known any more: nothing is ours
	}
	found, err := look(to, nil)
	if err != nil {
		return err
	}
	first := true
	for name, e := range found {
		if prints[name] == e.print() || m != nil && m.names(name) {
			continue
		}
		useless, err := e.useless(to, m)
		if err != nil {
			return err
		}
		if !useless {
			continue
		}
		if first {
			if err := to.removeAll(asideDir); err != nil {
				return err
			}
			if err := to.Mkdir(asideDir, 0o700); err != nil {
				return err
			}
			first = false
		}
		if err := to.Rename(name, path.Join(asideDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// useless reports whether an entry that nobody committed can only do harm: a
// step later than the one to resume from, or a file that is not whole.
func (e *entry) useless(t tree, m *Manifest) (bool, error) {
	if n, ok := e.order(); ok {
		for _, f := range m.files() {
			other := entry{name: topOf(f.Path)}
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

// files are those of the manifest; none of none.
func (m *Manifest) files() []File {
	if m == nil {
		return nil
	}
	return m.Files
}

// Scratch readies dir for a generation that starts without a checkpoint.
func (s *Store) Scratch(dir string) error {
	t, err := makeTree(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	to := &disk{tree: t, scratch: own}
	if err := s.clean(to); err != nil {
		return err
	}
	return s.setAside(to, nil)
}
