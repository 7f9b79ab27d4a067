package pipeline

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// A store that is set back names fewer commits than the disks know. Nothing is removed on its word,
// and no save becomes its head, neither by the process that committed nor by the next one on that
// disk.
func TestNothingIsRemovedOrCommittedWhileTheStoreIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, a, l := keeping(t)
		save := func(i int) { renamed(t, c.dirs["a"], "last.ckpt", memfs.Bytes(uint64(i), 1000)) }
		save(1)
		next[replicator.Committed](t, r)
		time.Sleep(time.Minute)
		old := c.etcd.Backup()
		for i := range 2 {
			save(2 + i)
			next[replicator.Committed](t, r)
		}
		time.Sleep(time.Minute)
		c.etcd.Restore(old)
		save(4)
		time.Sleep(5 * time.Minute)
		head, _, err := a.Record.Read(t.Context())
		must(t, err)
		if head.Number != 1 {
			t.Errorf("the head of a store that is behind is %d now", head.Number)
		}
		// another process on the same disk
		next := c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
		go next.Run(long(t))
		time.Sleep(5 * time.Minute)
		for node, s := range c.peers.Stores {
			if got := s.Numbers(); !slices.Equal(got, []manifest.Number{1, 2, 3}) {
				t.Errorf("%s has %v", node, got)
			}
		}
		if n := len(c.peers.Stores["a"].Held()); n != 4 {
			t.Errorf("a holds %d manifests, and not the three commits and the save that waits", n)
		}
		l.Close()
	})
}

// A node that only read of a commit does not miss it: when the job is made again without it, nobody could
// bring it.
func TestACommitThatANodeOnlyReadOfIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, a, l := capturing(t, "a", "b", "c")
		go a.Run(long(t))
		save := func(i int) {
			renamed(t, c.dirs["a"], "last.ckpt", memfs.Bytes(uint64(i), 1000))
			next[replicator.Committed](t, r)
		}
		save(1)
		old := c.etcd.Backup()
		save(2)
		name := "b"
		if len(c.peers.Stores[name].Held()) > 0 {
			name = "c" // the other copy is on b
		}
		reader := c.replicator(name, c.etcd.Client(name), func(replicator.Event) {})
		if head, _, err := reader.Read(t.Context()); err != nil || head.Number != 2 {
			t.Fatalf("it reads of %d: %v", head.Number, err)
		}
		c.etcd.Restore(old)
		if _, _, err := a.Read(t.Context()); !errors.Is(err, replicator.ErrStoreBehind) {
			t.Errorf("the node that has it: %v", err)
		}
		if head, _, err := reader.Read(t.Context()); err != nil || head.Number != 1 {
			t.Errorf("it reads of %d: %v", head.Number, err)
		}
		l.Close()
	})
}
