package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

const benchBytes = 256 << 20

// copyAndSync is what the disk gives: a copy of the file into n new ones, synced. It returns the time.
func copyAndSync(b *testing.B, dir string, n int) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	var took time.Duration
	for i := range n {
		name := filepath.Join(b.TempDir(), fmt.Sprint(i))
		syscall.Sync() // what others, and the iteration before, left to do
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

// The speed, and what part it is of a plain copy's in the same minute.
func BenchmarkPut(b *testing.B) {
	dir, disk := b.TempDir(), b.TempDir()
	s, err := Open(disk)
	must(b, err)
	b.SetBytes(benchBytes)
	var plain, ours time.Duration
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := benchSave(b, dir, i)
		plain += copyAndSync(b, dir, 1)
		syscall.Sync()
		began := time.Now()
		if _, _, err := s.Put(b.Context(), save); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(began)
		b.StopTimer()
		must(b, save.dir.Close())
		must(b, s.Retain(1, []Head{}, nil, time.Now()))
		b.StartTimer()
	}
	b.ReportMetric(float64(plain)/float64(ours), "of-cp+fsync")
}

// Capture to acknowledged copy. Both disks are this one: the measure is two copies.
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
	var plain, ours time.Duration
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := benchSave(b, dir, i)
		plain += copyAndSync(b, dir, 2)
		syscall.Sync()
		began := time.Now()
		_, h, err := a.Put(b.Context(), save)
		must(b, err)
		_, err = c.Replicate(b.Context(), 1, h, []membership.Node{f.node("b")}, nil)
		must(b, err)
		ours += time.Since(began)
		b.StopTimer()
		must(b, save.dir.Close())
		committed := []Head{{Number: 1, Manifest: h}}
		must(b, a.Retain(1, committed, nil, time.Now()))
		must(b, f.stores["b"].Retain(1, committed, nil, time.Now()))
		b.StartTimer()
	}
	b.ReportMetric(float64(plain)/float64(ours), "of-two-cp+fsync")
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
