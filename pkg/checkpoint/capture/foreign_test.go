package capture

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// lent is a directory in which some names belong to another user.
type lent struct {
	dirfs.OS
	to map[string]bool // by the last part of the name
}

type lentInfo struct{ fs.FileInfo }

func (l lent) Lstat(name string) (fs.FileInfo, error) {
	fi, err := l.OS.Lstat(name)
	if err == nil && l.to[path.Base(name)] {
		fi = lentInfo{fi}
	}
	return fi, err
}

func (i lentInfo) Sys() any {
	st := *i.FileInfo.Sys().(*syscall.Stat_t)
	st.Uid += 4242
	return &st
}

// Whoever can write the checkpoint directory must not have workers load what he wrote there, nor
// keep saves of the workers from being taken.
func TestFilesOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"step-1/model.raw", "step-1/evil.raw", "step-1/" + markFile,
		"step-9/model.raw", "step-9/" + markFile, "evil.ckpt", "last.raw", "last.raw" + markSuffix} {
		must(t, os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("1"), 0o600))
	}
	disk, err := dirfs.Open(dir)
	must(t, err)
	defer disk.Close()
	l := lent{disk, map[string]bool{"step-9": true, "evil.ckpt": true, "evil.raw": true,
		"last.raw" + markSuffix: true}}
	found, err := look(l, nil, nil)
	must(t, err)
	if got := slices.Sorted(maps.Keys(found.entries)); !slices.Equal(got, []string{"last.raw", "step-1"}) {
		t.Errorf("the entries are %q", got)
	}
	if e := found.entries["step-1"]; e.mark == nil || e.has("evil.raw") || !e.has("model.raw") {
		t.Errorf("step-1 has %q, mark %v", e.names(), e.mark)
	}
	if e := found.entries["last.raw"]; e.mark != nil {
		t.Error("a mark of another user counts")
	}
}

// It is said, for it may be the workers who have another user.
func TestFilesOfAnotherUserAreNamed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "old.ckpt"), []byte("1"), 0o600))
	disk, err := dirfs.Open(dir)
	must(t, err)
	l := lent{disk, map[string]bool{"old.ckpt": true, "new.ckpt": true}}
	workers := Workers{State: func() WorkerState { return Running }}
	c, err := Watch(Dir{FS: l}, manifest.Stamp{Job: "x", UID: "u1", Generation: 1, WorldSize: 1}, workers, nil)
	must(t, err)
	defer c.Close()
	if _, refused, err := c.Look(time.Now()); err != nil || len(refused) > 0 {
		t.Fatalf("a file of before: %v, %v", refused, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "new.ckpt"), []byte("1"), 0o600))
	p, refused, err := c.Look(time.Now())
	if err != nil || p != nil || len(refused) != 1 || refused[0].Reason != Foreign || refused[0].Path != "new.ckpt" {
		t.Fatalf("a new file: %v, %v, %v", p, refused, err)
	}
}
