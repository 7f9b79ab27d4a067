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

const asideDir = ".elastic-uncommitted" // holds the entries of the newest SetAside

// print is a fingerprint of the entry's state. It stays valid when the agent restarts.
func (e *entry) print() string {
	sum := sha256.New()
	for _, f := range e.files {
		fmt.Fprintln(sum, f.Path, f.State.Ino, f.State.Size, f.State.Mtime)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// recordFingerprints stores the fingerprints of the entries that were found, and the generation whose
// saves are captured here, since which boot of the machine.
func recordFingerprints(s *chunkstore.Store, found map[string]*entry, of manifest.Stamp, boot string) error {
	f, err := s.Fingerprints()
	if err != nil {
		return err
	}
	if f == nil {
		f = &chunkstore.Fingerprints{}
	}
	f.Prints, f.Generation, f.UID, f.Boot = prints(found), of.Generation, of.UID, boot
	return s.SaveFingerprints(f)
}

func prints(found map[string]*entry) map[string]string {
	all := map[string]string{}
	for name, e := range found {
		all[name] = e.print()
	}
	return all
}

// RecordFingerprints stores the fingerprints of the entries in dir before the workers of a generation
// start. It is for a node that captures nothing.
func RecordFingerprints(s *chunkstore.Store, dir Dir) error {
	t, err := dir.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	found, err := look(t, dir.within(), nil)
	if err != nil {
		return err
	}
	return recordFingerprints(s, found.entries, manifest.Stamp{}, dir.Boot)
}

// RecordFingerprints stores the fingerprints of the entries as they were when the watch began, or at the
// last save.
func (c *Watcher) RecordFingerprints(s *chunkstore.Store) error {
	return recordFingerprints(s, c.base, c.stamp, c.dir.Boot)
}

// RecordFingerprints stores the fingerprints of the entries as they were when the save was found.
func (p *Picture) RecordFingerprints(s *chunkstore.Store) error {
	return recordFingerprints(s, p.seen, p.Save.Stamp, p.boot)
}

// SetAside moves entries that an ended generation left in the directory to asideDir, before a
// generation starts from m, or from scratch if m is nil. It moves an entry that is not in m if it
// changed since the last commit (its step is unknown), or if it was committed after m (its step is
// later). Otherwise a script that looks for its files itself would resume from that entry, and on
// this node only. Entries that were there before the first worker of the job stay.
func SetAside(s *chunkstore.Store, t dirfs.FS, dir Dir, m *manifest.Manifest) error {
	was, err := s.Fingerprints()
	if err != nil {
		return err
	}
	found, err := look(t, dir.within(), nil)
	if err != nil {
		return err
	}
	if m != nil {
		maps.DeleteFunc(found.entries, func(name string, _ *entry) bool { return m.Contains(name) })
	}
	if was == nil { // no worker of this job ever ran here
		return s.SaveFingerprints(&chunkstore.Fingerprints{Before: prints(found.entries)})
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

// laterThan returns a function that reports whether an entry is of a later step than m. It is if
// its number is larger than that of the entry of the same family in m, or if a checkpoint on this
// disk that comes after m contains it. Two checkpoints that both have a step are ordered by step,
// because a store that was set back assigns the same generation numbers again. If m is nil, every
// entry is later.
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
		e.dir = e.name != f.Path
		if n, ok := e.number(); ok {
			numbers[e.family()] = n
		}
	}
	return func(e *entry) bool {
		n, counts := e.number()
		last, same := numbers[e.family()]
		return counts && same && n > last ||
			slices.ContainsFunc(after, func(n *manifest.Manifest) bool { return n.Contains(e.name) })
	}, nil
}

// Scratch prepares dir for a generation that starts without a checkpoint.
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
