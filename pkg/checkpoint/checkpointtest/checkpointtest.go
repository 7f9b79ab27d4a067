// Package checkpointtest has helpers for tests with saves, chunk stores and peers.
package checkpointtest

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

func OpenStore(t testing.TB, tree dirfs.FS) *chunkstore.Store {
	t.Helper()
	s, err := chunkstore.OpenFS(tree)
	must(t, err)
	return s
}

// OpenDir opens a store in a directory of this machine.
func OpenDir(t testing.TB, dir string) *chunkstore.Store {
	t.Helper()
	tree, err := dirfs.Make(dir)
	must(t, err)
	return OpenStore(t, tree)
}

// Restore restores the files of a checkpoint into a directory, and returns the path from which a
// worker resumes.
func Restore(t testing.TB, s *chunkstore.Store, h manifest.Hash, dir string) string {
	t.Helper()
	to, err := dirfs.Make(dir)
	must(t, err)
	defer to.Close()
	m, err := s.Manifest(h)
	must(t, err)
	must(t, restore.Files(t.Context(), to, m, s))
	return filepath.Join(dir, filepath.FromSlash(m.Entry))
}

// SaveOf returns a save of all files of a tree.
func SaveOf(t testing.TB, from dirfs.FS, g schema.Generation, seq uint64) chunkstore.Save {
	t.Helper()
	s := chunkstore.Save{Stamp: manifest.Stamp{Job: "x", UID: "u1", Generation: g, WorldSize: 2},
		Sequence: seq, Time: time.Now(), Dir: from}
	files, err := memfs.Files(from)
	must(t, err)
	s.Files = files
	return s
}

func Put(
	t testing.TB, s *chunkstore.Store, from dirfs.FS, g schema.Generation, seq uint64,
) (*manifest.Manifest, manifest.Hash) {
	t.Helper()
	m, h, err := s.Put(t.Context(), SaveOf(t, from, g, seq))
	must(t, err)
	return m, h
}

// Flip changes a bit of a chunk in the directory of a store.
func Flip(t testing.TB, of dirfs.FS, h manifest.Hash) {
	t.Helper()
	name, d := "chunks/"+h.String(), dirfs.NewDisk(of, "")
	raw, err := d.ReadFile(name, manifest.ChunkSize)
	must(t, err)
	raw[len(raw)/2] ^= 1
	must(t, of.Remove(name))
	must(t, d.Write(name, 0o600, d.From(bytes.NewReader(raw))))
}

// Fault makes one operation of a scenario fail. Operations are counted over all disks, the network
// and the store of the job.
type Fault struct {
	At    int64
	Kind  string // "error": that operation fails; "crash": all later operations of Node fail, too
	Node  string // "" is node a
	count atomic.Int64
	Hit   atomic.Bool
}

func (f *Fault) Step(node string) error {
	n := f.count.Add(1)
	switch {
	case n == f.At:
		f.Hit.Store(true)
		return ErrCrash
	case n > f.At && f.Kind == "crash" && node == cmp.Or(f.Node, "a"):
		return ErrCrash
	}
	return nil
}

var ErrCrash = errors.New("crashed")

// CopyAndSync measures how long the disk takes to copy the file n times, and to sync the copies.
func CopyAndSync(b *testing.B, dir string, n int) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	var took time.Duration
	for i := range n {
		name := filepath.Join(b.TempDir(), fmt.Sprint(i))
		syscall.Sync() // writes of other programs, and of the iteration before
		began := time.Now()
		in, err := os.Open(filepath.Join(dir, "model.bin"))
		must(b, err)
		out, err := os.Create(name)
		must(b, err)
		_, err = io.Copy(struct{ io.Writer }{out}, in)
		must(b, err)
		must(b, out.Sync())
		must(b, errors.Join(in.Close(), out.Close()))
		took += time.Since(began)
		must(b, os.Remove(name))
	}
	return took
}

func BenchSave(b *testing.B, dir string, i uint64) chunkstore.Save {
	data := memfs.Bytes(i, BenchBytes)
	must(b, os.WriteFile(filepath.Join(dir, "model.bin"), data, 0o600))
	out, err := os.Open(filepath.Join(dir, "model.bin"))
	must(b, err)
	must(b, out.Sync()) // the worker's own write is not measured
	must(b, out.Close())
	from, err := dirfs.Open(dir)
	must(b, err)
	return SaveOf(b, from, 1, i+1)
}

const BenchBytes = 256 << 20

func Zip(t testing.TB, records map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range records {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		must(t, err)
		_, err = w.Write([]byte(data))
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
