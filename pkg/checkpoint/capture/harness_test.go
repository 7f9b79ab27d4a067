package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// bench is a capture of a real directory, whose clock the test moves. Files
// are as old as the test says, so that nothing waits.
type bench struct {
	t       *testing.T
	dir     string
	c       *Watcher
	now     time.Time
	state   WorkerState
	queue   *Queue
	names   []string // of --save-files
	exclude []string

	refused []Refusal
}

func newBench(t *testing.T, before ...string) *bench {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
	for _, name := range before {
		b.write(name, "before")
	}
	b.watch(nil)
	return b
}

func (b *bench) watch(resume *manifest.Manifest) {
	workers := Workers{State: func() WorkerState { return b.state }}
	stamp := manifest.Stamp{Job: "x", UID: "u1", Generation: 1, WorldSize: 2}
	c, err := Watch(Dir{Path: b.dir, Queue: b.queue, Names: b.names, Exclude: b.exclude}, stamp, workers, resume)
	must(b.t, err)
	b.c = c
	b.t.Cleanup(func() { c.Close() })
}

// write writes a file in place, as a worker does at this moment.
func (b *bench) write(name, data string) {
	b.t.Helper()
	p := filepath.Join(b.dir, filepath.FromSlash(name))
	must(b.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(b.t, os.WriteFile(p, []byte(data), 0o644))
}

// rename makes a name appear, whole.
func (b *bench) rename(from, to string) {
	b.t.Helper()
	b.afterWrite(filepath.Join(b.dir, from))
	must(b.t, os.Rename(filepath.Join(b.dir, from), filepath.Join(b.dir, to)))
}

// afterWrite returns when the file system's clock moved on since the last
// write: a rename within its grain looks like a write, and waits.
func (b *bench) afterWrite(p string) {
	b.t.Helper()
	fi, err := os.Lstat(p)
	must(b.t, err)
	probe := filepath.Join(b.t.TempDir(), "probe")
	for {
		must(b.t, os.WriteFile(probe, nil, 0o600))
		now, err := os.Lstat(probe)
		must(b.t, err)
		if now.ModTime().After(fi.ModTime()) {
			return
		}
	}
}

// tree is the directory, open.
func (b *bench) tree() dirfs.OS {
	b.t.Helper()
	t, err := dirfs.Open(b.dir)
	must(b.t, err)
	b.t.Cleanup(func() { t.Close() })
	return t
}

// look lets time pass in steps of the poll, and returns the entries of the
// first save, taken, or nil.
func (b *bench) look(d time.Duration) *Picture {
	b.t.Helper()
	for end := b.now.Add(d); ; b.now = b.now.Add(100 * time.Millisecond) {
		if s := b.once(false); s != nil {
			return s
		}
		if !b.now.Before(end) {
			return nil
		}
	}
}

func (b *bench) once(last bool) *Picture {
	b.t.Helper()
	look := b.c.Look
	if last {
		look = b.c.Last
	}
	s, refused, err := look(b.now)
	must(b.t, err)
	b.refused = append(b.refused, refused...)
	if s != nil {
		b.c.Taken(s)
	}
	return s
}

func paths(s *Picture) string {
	if s == nil {
		return ""
	}
	var p []string
	for _, f := range s.Save.Files {
		p = append(p, f.Path)
	}
	return strings.Join(p, " ")
}

func (b *bench) want(s *Picture, files, entry string, step int64) {
	b.t.Helper()
	if got := paths(s); got != files {
		b.t.Errorf("files %q, want %q", got, files)
	}
	if s == nil {
		return
	}
	got := int64(-1)
	if s.Save.Step != nil {
		got = *s.Save.Step
	}
	if s.Save.Entry != entry || got != step {
		b.t.Errorf("entry %q, step %d; want %q, %d", s.Save.Entry, got, entry, step)
	}
}

const unknown = -1
