package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// used are the bytes of all files on a disk, of those that are being written too.
func used(n *memfs.Node) (bytes int64) {
	for _, below := range n.Names {
		bytes += used(below)
	}
	return bytes + int64(len(n.Data))
}

// However fast saves follow each other, the disk of a node that saves, and of one that holds copies,
// has at most 2.2 times the bytes of the checkpoints that are kept: while the next one is written,
// what it replaces is still there. With one that is kept, and saves that come faster than the old one
// is removed, there are three.
func TestDiskUseIsBounded(t *testing.T) {
	for _, keep := range []int{1, 2, 3} {
		for _, every := range []time.Duration{200 * time.Millisecond, 250 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("keep %d, a save each %s", keep, every), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { diskUse(t, keep, every) })
			})
		}
	}
}

func diskUse(t *testing.T, keep int, every time.Duration) {
	const size = 256 << 10
	c := newCluster(t, "a", "b")
	r := newReports()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex // each disk asks under a lock of its own
	peak := map[string]int64{}
	k := c.replicator("a", c.etcd.Client("a"), r.add)
	b := c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
	k.Keep, b.Keep = keep, keep
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
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 30 {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		renamed(t, c.dirs["a"], "model.pt", data)
		time.Sleep(max(every, time.Duration(2-n)*2*time.Second)) // the first saves show what belongs to one
	}
	time.Sleep(time.Minute)
	_, committed, err := k.Read(ctx)
	must(t, err)
	l.Close()
	<-l.Done()
	cancel()
	synctest.Wait()
	for name, n := range peak {
		t.Logf("%d of 30 committed; %s: at most %.2f saves on the disk, %.2f times what is kept", committed[len(committed)-1].Number, name, float64(n)/size, float64(n)/float64(keep*size))
		if limit := max(22*int64(keep), 31) * size / 10; n > limit {
			t.Errorf("%s: %d bytes on the disk, the limit is %d", name, n, limit)
		}
	}
}
