package pipeline

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
)

// used are the bytes of all files on a disk, of those that are being written too.
func used(n *memfs.Node) (bytes int64) {
	for _, below := range n.Names {
		bytes += used(below)
	}
	return bytes + int64(len(n.Data))
}

// serial are peers behind a link that takes one chunk after the other.
type serial struct {
	*checkpointtest.Peers
	link chan struct{} // holds one value while a chunk is on its way
}

func (p serial) WriteChunk(ctx context.Context, to membership.Ref, c chunkstore.Upload) error {
	p.link <- struct{}{}
	defer func() { <-p.link }()
	time.Sleep(5 * time.Millisecond)
	return p.Peers.WriteChunk(ctx, to, c)
}

// frequent are saves that follow each other.
type frequent struct {
	keep, saves, size int
	every             time.Duration
}

// The disks of the saving node and of a holder have at most 2.2 times the bytes of the checkpoints
// that are kept, at any rate of saves. While a save is written, the checkpoint that it replaces
// still exists, but the one before that is removed.
func TestDiskUseIsBounded(t *testing.T) {
	cases := []frequent{{keep: 1, saves: 6, size: 6 * manifest.ChunkSize, every: 250 * time.Millisecond}}
	for _, every := range []time.Duration{200 * time.Millisecond, 250 * time.Millisecond, time.Second} {
		for keep := 2; keep <= 3; keep++ {
			cases = append(cases, frequent{keep: keep, saves: 30, size: 256 << 10, every: every})
		}
	}
	for _, f := range cases {
		t.Run(fmt.Sprintf("keep %d, a save each %s", f.keep, f.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { diskUse(t, f) })
		})
	}
}

func diskUse(t *testing.T, f frequent) {
	c := newCluster(t, "a", "b")
	r := newReports()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex // each disk asks under a lock of its own
	peak := map[string]int64{}
	k := c.replicator("a", c.etcd.Client("a"), r.add)
	k.Peers = serial{c.peers, make(chan struct{}, 1)}
	b := c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
	k.Keep, b.Keep = f.keep, f.keep
	for name, disk := range c.disks {
		disk.Set(func(string, string) error {
			mu.Lock()
			defer mu.Unlock()
			peak[name] = max(peak[name], used(disk.Root))
			return nil
		}, 1<<40)
	}
	for _, x := range []*replicator.Replicator{k, b} {
		go func() { _ = x.Run(ctx) }()
	}
	l := c.line(t, k, stampOf(1), alive, nil)
	for n := range f.saves {
		renamed(t, c.dirs["a"], "last.ckpt", memfs.Bytes(uint64(n), f.size))
		time.Sleep(max(f.every, time.Duration(2-n)*2*time.Second)) // the first saves show what belongs to one
	}
	time.Sleep(time.Minute)
	_, committed, err := k.Read(ctx)
	must(t, err)
	l.Close()
	<-l.Done()
	cancel()
	synctest.Wait()
	for name, n := range peak {
		t.Logf("%d of %d committed; %s: at most %.2f saves on the disk, %.2f times what is kept",
			committed[len(committed)-1].Number, f.saves, name, float64(n)/float64(f.size),
			float64(n)/float64(f.keep*f.size))
		if limit := int64(22 * f.keep * f.size / 10); n > limit {
			t.Errorf("%s: %d bytes on the disk, the limit is %d", name, n, limit)
		}
	}
}
