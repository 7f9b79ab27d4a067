package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// BenchmarkParts measures from the last rename to the commit with two copies: a save of one node,
// and one of four nodes that have a quarter each. All disks are this one, and there is no network
// between the stores.
func BenchmarkParts(b *testing.B) {
	const size = 256 << 20
	for _, nodes := range []int{1, 4} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			names := []string{"a", "b", "c", "d"}
			c := newCluster(b, names...)
			dirs, done := map[string]string{}, make(chan manifest.Head, 8)
			with := &Sharing{All: true}
			for _, n := range c.nodes[:nodes] {
				with.Members = append(with.Members, n.Ref)
			}
			if nodes == 1 {
				with = nil
			}
			for _, n := range names {
				c.peers.Stores[n], dirs[n] = checkpointtest.OpenDir(b, b.TempDir()), b.TempDir()
			}
			for _, n := range names[:nodes] {
				k := c.replicator(n, c.etcd.Client(n), func(e replicator.Event) {
					if e, ok := e.(replicator.Committed); ok {
						done <- e.Head
					}
				})
				k.Keep = 1
				l, err := Start(long(b), k, Source{Dir: capture.Dir{Path: dirs[n]}, Stamp: stampOf(1),
					Writers: Writers{Workers: alive, With: with}})
				must(b, err)
				defer func() { l.Close(); <-l.Done() }()
			}
			b.SetBytes(size)
			for step := 1; b.Loop(); step++ {
				b.StopTimer()
				for i, n := range names[:nodes] {
					temp := filepath.Join(dirs[n], "new.tmp")
					must(b, os.Mkdir(temp, 0o700))
					must(b, os.WriteFile(filepath.Join(temp, fmt.Sprint("shard_", i)),
						memfs.Bytes(uint64(step*10+i), size/nodes), 0o600))
				}
				syscall.Sync()
				b.StartTimer()
				for _, n := range names[:nodes] {
					must(b, os.Rename(filepath.Join(dirs[n], "new.tmp"),
						filepath.Join(dirs[n], fmt.Sprint("step-", step))))
				}
				head := <-done
				b.StopTimer()
				for _, n := range names {
					must(b, os.RemoveAll(filepath.Join(dirs[n], fmt.Sprint("step-", step-1))))
					must(b, c.peers.Stores[n].Retain(1, []manifest.Head{head}, nil, time.Now()))
				}
				b.StartTimer()
			}
		})
	}
}
