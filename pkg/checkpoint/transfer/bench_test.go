package transfer

import (
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// Capture to acknowledged copy. Both disks are this one: the measure is two copies.
func BenchmarkPutAndReplicate(b *testing.B) {
	dir := b.TempDir()
	a := checkpointtest.OpenDir(b, b.TempDir())
	f := newFarm(b)
	disk, err := dirfs.Open(b.TempDir())
	must(b, err)
	f.add(b, "b", disk)
	c := f.copier(b, "b")
	c.Store = a
	b.SetBytes(checkpointtest.BenchBytes)
	var plain, ours time.Duration
	for i := uint64(0); b.Loop(); i++ {
		b.StopTimer()
		save := checkpointtest.BenchSave(b, dir, i)
		plain += checkpointtest.CopyAndSync(b, dir, 2)
		syscall.Sync()
		began := time.Now()
		_, h, err := a.Put(b.Context(), save)
		must(b, err)
		_, err = c.Replicate(b.Context(), h, []membership.Node{f.node("b")})
		must(b, err)
		ours += time.Since(began)
		b.StopTimer()
		must(b, save.Dir.Close())
		committed := []manifest.Head{{Number: 1, Manifest: h}}
		must(b, a.Retain(1, committed, nil, time.Now()))
		must(b, f.stores["b"].Retain(1, committed, nil, time.Now()))
		b.StartTimer()
	}
	b.ReportMetric(float64(plain)/float64(ours), "of-two-cp+fsync")
}
