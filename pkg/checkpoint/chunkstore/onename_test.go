package chunkstore

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// folding is a disk that does not tell upper from lower case.
type folding struct{ dirfs.FS }

func (d folding) Open(name string) (dirfs.File, error)   { return d.FS.Open(strings.ToLower(name)) }
func (d folding) Lstat(name string) (fs.FileInfo, error) { return d.FS.Lstat(strings.ToLower(name)) }
func (d folding) Mkdir(name string, perm fs.FileMode) error {
	return d.FS.Mkdir(strings.ToLower(name), perm)
}
func (d folding) Rename(from, to string) error {
	return d.FS.Rename(strings.ToLower(from), strings.ToLower(to))
}
func (d folding) Remove(name string) error { return d.FS.Remove(strings.ToLower(name)) }
func (d folding) Create(name string, perm fs.FileMode) (dirfs.File, error) {
	return d.FS.Create(strings.ToLower(name), perm)
}

// A checkpoint with two names that differ in their case alone is put back where they are two files,
// and refused where they are one: nothing is written over.
func TestNamesThatDifferInCase(t *testing.T) {
	for _, names := range [][2]string{{"Model.pt", "model.pt"}, {"A/model.pt", "a/model.pt"}} {
		from, to := memfs.New(), memfs.New()
		s := storeOn(t, memfs.New())
		memfs.WriteFile(t, from, names[0], []byte("one"), 0o600)
		memfs.WriteFile(t, from, names[1], []byte("the other"), 0o600)
		_, h := put(t, s, from, 1, 1)
		if err := restoreTo(t, s, h, to); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(memfs.Contents(t, from), memfs.Contents(t, to)); d != "" {
			t.Error(d)
		}
		blind := memfs.New()
		memfs.WriteFile(t, blind, strings.ToLower(names[0]), []byte("before"), 0o600)
		before := memfs.Contents(t, blind)
		err := restoreTo(t, s, h, folding{blind})
		if !errors.Is(err, restore.ErrOneName) || !strings.Contains(err.Error(), names[0][:1]) {
			t.Errorf("restore where case does not count: %v", err)
		}
		if d := cmp.Diff(before, memfs.Contents(t, blind)); d != "" {
			t.Errorf("it was changed: %s", d)
		}
	}
}
