package checkpoint

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

const benchBytes = 256 << 20

// What the disk gives: a copy of the file and a sync, in the same place.
func BenchmarkCopyAndSync(b *testing.B) {
	dir := b.TempDir()
	data := bytesOf(1, benchBytes)
	b.SetBytes(benchBytes)
	for b.Loop() {
		f, err := os.Create(filepath.Join(dir, "copy"))
		must(b, err)
		_, err = f.Write(data)
		must(b, err)
		must(b, f.Sync())
		must(b, f.Close())
	}
}

func BenchmarkPut(b *testing.B) {
	dir, disk := b.TempDir(), b.TempDir()
	s, err := Open(disk)
	must(b, err)
	b.SetBytes(benchBytes)
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := benchSave(b, dir, i)
		b.StartTimer()
		if _, _, err := s.Put(b.Context(), save); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		must(b, save.dir.Close())
		must(b, s.Retain(1, []Head{}, nil, time.Now()))
		b.StartTimer()
	}
}

// Capture to acknowledged copy, both disks being this one.
func BenchmarkPutAndReplicate(b *testing.B) {
	dir := b.TempDir()
	a, err := Open(b.TempDir())
	must(b, err)
	f := &farm{stores: map[string]*Store{}, servers: map[string]*httptest.Server{}}
	disk, err := openTree(b.TempDir())
	must(b, err)
	f.add(b, "b", disk)
	c := f.copier(b, "b")
	c.Store = a
	b.SetBytes(benchBytes)
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := benchSave(b, dir, i)
		b.StartTimer()
		_, h, err := a.Put(b.Context(), save)
		must(b, err)
		_, err = c.Replicate(b.Context(), 1, h, []membership.Node{f.node("b")}, nil)
		must(b, err)
		b.StopTimer()
		must(b, save.dir.Close())
		must(b, a.Retain(1, []Head{{Number: 1, Manifest: h}}, nil, time.Now()))
		must(b, f.stores["b"].Retain(1, []Head{{Number: 1, Manifest: h}}, nil, time.Now()))
		b.StartTimer()
	}
}

func benchSave(b *testing.B, dir string, i uint64) Save {
	data := bytesOf(i, benchBytes)
	must(b, os.WriteFile(filepath.Join(dir, "model.bin"), data, 0o600))
	out, err := os.Open(filepath.Join(dir, "model.bin"))
	must(b, err)
	must(b, out.Sync()) // the worker's own bytes are not ours to count
	must(b, out.Close())
	from, err := openTree(dir)
	must(b, err)
	return saveOf(b, from, 1, i+1)
}

func BenchmarkRestore(b *testing.B) {
	from := b.TempDir()
	s, err := Open(b.TempDir())
	must(b, err)
	_, h, err := s.Put(b.Context(), benchSave(b, from, 1))
	must(b, err)
	b.SetBytes(benchBytes)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Restore(b.Context(), h, filepath.Join(from, fmt.Sprint(i%2))); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		must(b, os.RemoveAll(filepath.Join(from, fmt.Sprint(i%2))))
		b.StartTimer()
	}
}

// One look while nothing happens: it is made five times a second at most.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 20 {
		must(b, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("checkpoint-%d", i)), 0o700))
		for k := range 10 {
			must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("checkpoint-%d/%d.bin", i, k)), bytes.Repeat([]byte{1}, 100), 0o600))
		}
	}
	must(b, os.WriteFile(filepath.Join(dir, "best.pt"), []byte("x"), 0o600))
	c, err := Watch(dir, Stamp{}, alive, nil)
	must(b, err)
	defer c.Close()
	for b.Loop() {
		if _, _, err := c.Look(time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
