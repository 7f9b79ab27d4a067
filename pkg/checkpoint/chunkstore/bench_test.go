package chunkstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// The speed, and what part it is of a plain copy's in the same minute.
func BenchmarkPut(b *testing.B) {
	dir, disk := b.TempDir(), b.TempDir()
	s := checkpointtest.OpenDir(b, disk)
	b.SetBytes(checkpointtest.BenchBytes)
	var plain, ours time.Duration
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := checkpointtest.BenchSave(b, dir, i)
		plain += checkpointtest.CopyAndSync(b, dir, 1)
		syscall.Sync()
		began := time.Now()
		if _, _, err := s.Put(b.Context(), save); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(began)
		b.StopTimer()
		must(b, save.Dir.Close())
		must(b, s.Retain(1, []manifest.Head{}, nil, time.Now()))
		b.StartTimer()
	}
	b.ReportMetric(float64(plain)/float64(ours), "of-cp+fsync")
}

func BenchmarkRestore(b *testing.B) {
	from := b.TempDir()
	s := checkpointtest.OpenDir(b, b.TempDir())
	_, h, err := s.Put(b.Context(), checkpointtest.BenchSave(b, from, 1))
	must(b, err)
	b.SetBytes(checkpointtest.BenchBytes)
	for i := 0; b.Loop(); i++ {
		checkpointtest.Restore(b, s, h, filepath.Join(from, fmt.Sprint(i%2)))
		b.StopTimer()
		must(b, os.RemoveAll(filepath.Join(from, fmt.Sprint(i%2))))
		b.StartTimer()
	}
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
