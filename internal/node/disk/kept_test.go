package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// life is an agent of node a that held its lock, and left something of the job of that id.
func life(t *testing.T, d *Disk, uid schema.UID, what string) (aside string) {
	t.Helper()
	unlock, err := d.Lock("a")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if aside, err = d.Adopt("a", rendezvous.Job{UID: uid}, nil); err != nil {
		t.Fatal(err)
	}
	dir := d.JobDir("a")
	for _, name := range []string{"store/manifests/" + what, "work/" + what, "run/1/0/progress.jsonl"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1234567890"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return aside
}

// files lists what lies below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newTestDisk(t *testing.T) *Disk {
	t.Helper()
	d, err := Open(t.TempDir(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAdopt(t *testing.T) {
	d := newTestDisk(t)
	dir := d.JobDir("a")
	all := []string{"lock", "run/1/0/progress.jsonl", "store/manifests/one", "uid", "work/one"}

	if aside := life(t, d, "u1", "one"); aside != "" {
		t.Errorf("a first job moved %s aside", aside)
	}
	if err := d.SetLastGeneration("a", 7); err != nil {
		t.Fatal(err)
	}
	for range 2 { // another attempt, or another agent
		if aside := life(t, d, "u1", "one"); aside != "" ||
			!slices.Equal(files(t, dir), slices.Insert(slices.Clone(all), 0, "generation")) {
			t.Errorf("the same job moved %q aside and has %v", aside, files(t, dir))
		}
	}
	// Made again while this node lived: it goes on with what it had.
	if err := d.Continue("a", rendezvous.Job{UID: "u2", FirstUID: "u1", Remade: 1}); err != nil {
		t.Fatal(err)
	}
	if aside := life(t, d, "u2", "one"); aside != "" || len(files(t, dir)) != 6 {
		t.Errorf("its successor moved %q aside and has %v", aside, files(t, dir))
	}
	// Made again after it was removed: it has nothing, not even a generation.
	aside := life(t, d, "u3", "two")
	if want := dir + "~u2"; aside != want {
		t.Fatalf("another job moved what was there to %q, want %q", aside, want)
	}
	if diff := cmp.Diff([]string{"generation", "run/1/0/progress.jsonl", "store/manifests/one", "uid",
		"work/one"},
		files(t, aside)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"lock", "run/1/0/progress.jsonl", "store/manifests/two", "uid", "work/two"},
		files(t, dir)); diff != "" {
		t.Error(diff)
	}
	if g, err := d.LastGeneration("a"); g != 0 || err != nil {
		t.Errorf("another job has seen generation %d, %v", g, err)
	}
	// The job of before is here again, on another server or from a backup: it has what it had.
	aside = life(t, d, "u2", "three")
	if want := dir + "~u3"; aside != want || len(files(t, dir+"~u3")) != 4 {
		t.Fatalf("the first job moved what was there to %q, want %q: %v", aside, want, files(t, aside))
	}
	if got := files(t, dir); !slices.Contains(got, "store/manifests/one") ||
		slices.Contains(got, "store/manifests/two") {
		t.Errorf("the first job has %v", got)
	}
	if g, err := d.LastGeneration("a"); g != 7 || err != nil {
		t.Errorf("the first job has seen generation %d, %v", g, err)
	}
	if strings.HasPrefix(filepath.Base(aside), "x~") && schema.ValidName(filepath.Base(aside)) {
		t.Errorf("%s could be the directory of a job", aside)
	}
}

// Data that is moved aside stays in the state directory, beside its node, even if uidFile contains
// a path.
func TestAnIDThatIsAPathMovesNothingOut(t *testing.T) {
	for _, uid := range []string{"../../../x", "/x", "..", "a/b", "a\x00b", strings.Repeat("u", 65), ""} {
		d := newTestDisk(t)
		life(t, d, "u1", "one")
		dir := d.JobDir("a")
		if err := os.WriteFile(filepath.Join(dir, uidFile), []byte(uid+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if aside := life(t, d, "u2", "two"); aside != dir+"~damaged" {
			t.Errorf("with the id %.20q it was moved to %q", uid, aside)
		}
		if got := files(t, dir+"~damaged"); !slices.Contains(got, "store/manifests/one") {
			t.Errorf("with the id %.20q: %v", uid, got)
		}
	}
}

// After an interruption at any point, the next agent completes the move or takes it back.
func TestAdoptInterrupted(t *testing.T) {
	for _, next := range []schema.UID{"u1", "u2"} {
		d := newTestDisk(t)
		life(t, d, "u1", "one")
		dir := d.JobDir("a")
		if err := os.MkdirAll(dir+"~u1", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, StoreDir), filepath.Join(dir+"~u1", StoreDir)); err != nil {
			t.Fatal(err)
		}
		want, at := "", dir
		if next == "u2" {
			want, at = dir+"~u1", dir+"~u1"
		}
		if aside := life(t, d, next, "two"); aside != want {
			t.Errorf("moved to %q, want %q", aside, want)
		}
		if got := files(t, at); !slices.Contains(got, "store/manifests/one") ||
			!slices.Contains(got, "work/one") {
			t.Errorf("%s has %v", at, got)
		}
	}
}

func TestRemove(t *testing.T) {
	d := newTestDisk(t)
	life(t, d, "u1", "one")
	kept := func() Kept {
		t.Helper()
		all, err := KeptOf(d.Dir, "x")
		if err != nil || len(all) != 1 || all[0].Node != "a" || all[0].UID != "u1" {
			t.Fatalf("kept: %+v, %v", all, err)
		}
		return all[0]
	}
	k := kept()
	unlock, err := d.Lock("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Remove("x", Everything); !errors.Is(err, message.ErrLocked) {
		t.Errorf("while its agent lives: %v", err)
	}
	unlock()
	if n, err := k.Remove("x", AllButCheckpoints); n != 10 || err != nil {
		t.Errorf("but the checkpoints: %d bytes, %v", n, err)
	}
	if diff := cmp.Diff([]string{"lock", "store/manifests/one", "uid", "work/one"},
		files(t, d.JobDir("a"))); diff != "" {
		t.Error(diff)
	}
	k = kept()
	if n, err := k.Remove("x", Everything); n != 23 || err != nil {
		t.Errorf("all: %d bytes, %v", n, err)
	}
	if _, err := os.Stat(d.JobDir("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	if all, err := KeptOf(d.Dir, "x"); len(all) != 0 || err != nil {
		t.Errorf("still kept: %v, %v", all, err)
	}
	// A job of that name was created meanwhile, so the listed one is no longer there.
	life(t, d, "u2", "two")
	if n, err := k.Remove("x", Everything); n != 0 || err != nil || len(files(t, d.JobDir("a"))) != 5 {
		t.Errorf("another job's: %d bytes, %v", n, err)
	}
}

// The holder of the lock has the lock of the current directory, even if the directory was removed
// meanwhile.
func TestLockOutlivesRemoval(t *testing.T) {
	d := newTestDisk(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3000 {
				unlock, err := d.Lock("a")
				if errors.Is(err, message.ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(d.JobDir("a"), lockFile)); err != nil {
					t.Errorf("locked, but: %v", err)
				}
				unlock()
			}
		})
		wg.Go(func() {
			for range 3000 {
				if _, err := (Kept{Node: "a", disk: d, at: d.dirOf("a")}).Remove("x", Everything); err != nil &&
					!errors.Is(err, message.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
