package pipeline

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// A save that generation 1 left on the disk of its rank 0 is committed, unless the job went on
// without it.
func TestCommitLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		captured []uint64 // captures of generation 1 on the disk, by their sequence
		head     int      // which of them was committed; 0: none
		since    func(t *testing.T, c *cluster, k *replicator.Replicator)
		want     uint64 // the capture that is the head then; 0: nothing is committed
	}{
		{"nothing was committed", []uint64{1, 2}, 0, nil, 2},
		{"one was committed", []uint64{1, 2, 3}, 2, nil, 3},
		{"all were committed", []uint64{1, 2}, 2, nil, 0},
		{"a newer generation was proposed", []uint64{1}, 0,
			func(t *testing.T, c *cluster, _ *replicator.Replicator) { c.propose(t, 2) }, 0},
		{"the newest is damaged", []uint64{1, 2}, 0,
			func(t *testing.T, c *cluster, k *replicator.Replicator) {
				newest := uncommitted(k, manifest.Position{Generation: 1}, nil)[0]
				m, err := k.Store.Manifest(newest)
				must(t, err)
				for h := range m.DistinctChunks() {
					checkpointtest.Flip(t, c.disks["a"], h)
				}
			}, 1},
		{"somebody went back", []uint64{1, 2, 3}, 2,
			func(t *testing.T, c *cluster, k *replicator.Replicator) {
				head, all, err := k.Record.Read(t.Context())
				must(t, err)
				_, _, writes := k.Record.Rollback(head, all[0])
				c.write(t, writes...)
			}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t, "a", "b")
				k := l.replicator("a", l.etcd.Client("a"), func(replicator.Event) {})
				of := map[manifest.Hash]uint64{}
				for i, n := range c.captured {
					dir := memfs.New()
					memfs.WriteFile(t, dir, "model.raw", []byte(fmt.Sprint("weights ", n)), 0o600)
					m, h := checkpointtest.Put(t, k.Store, dir, 1, n)
					of[h] = n
					if i < c.head {
						head, _, err := k.Record.Read(t.Context())
						must(t, err)
						next := manifest.Head{Generation: 1, Manifest: h, Bytes: m.Bytes()}
						_, err = k.Record.Commit(t.Context(), next, head, l.nodes[:1])
						must(t, err)
					}
				}
				if c.since != nil {
					c.since(t, l, k)
				}
				h, err := CommitLeft(t.Context(), k, Left{Stamp: stampOf(1), Self: l.nodes[0]})
				if err != nil || of[h.Manifest] != c.want {
					t.Errorf("committed %d (%v), want %d", of[h.Manifest], err, c.want)
				}
				head, _, err := k.Record.Read(t.Context())
				if err != nil || c.want > 0 && (head.Manifest != h.Manifest || head.Number != h.Number ||
					head.Generation != 1) {
					t.Errorf("the head is %+v, %v", head, err)
				}
				if again, err := CommitLeft(t.Context(), k,
					Left{Stamp: stampOf(1), Self: l.nodes[0]}); again.Number != 0 || err != nil {
					t.Errorf("committed again: %+v, %v", again, err)
				}
			})
		})
	}
}

// A save that lies in the checkpoint directory and was never captured is committed if it is
// complete beyond doubt; else it is moved aside, so that all ranks begin at one step.
func TestCommitLeftInTheDirectory(t *testing.T) {
	marked := map[string]string{"step-2/model.raw": "2", "step-2/.elastic-commit": `{"step":2}`}
	other := stampOf(1)
	other.UID = "other"
	for _, c := range []struct {
		name  string
		of    manifest.Stamp // the generation that was captured here last
		left  map[string]string
		boot  string // of the machine now, if it was booted since
		taken bool
	}{
		{"with a mark", stampOf(1), marked, "", true},
		{"no mark where there was one", stampOf(1), map[string]string{"step-2/model.raw": "2"}, "", false},
		{"by an older generation: this node never heard of the newest", stampOf(0), marked, "", false},
		{"by that generation of a job that the store had before", other, marked, "", false},
		{"and nothing was captured", manifest.Stamp{}, marked, "", false},
		{"and the machine was booted since: files may be torn", stampOf(1), marked, "2", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t, "a", "b")
				k := l.replicator("a", l.etcd.Client("a"), func(replicator.Event) {})
				dir := capture.Dir{FS: l.dirs["a"]}
				memfs.WriteFile(t, l.dirs["a"], "step-1/model.raw", []byte("1"), 0o600)
				memfs.WriteFile(t, l.dirs["a"], "step-1/.elastic-commit", []byte(`{"step":1}`), 0o600)
				must(t, capture.Scratch(k.Store, dir))
				w, err := capture.Watch(dir, c.of, capture.Workers{}, nil)
				must(t, err)
				must(t, w.RecordFingerprints(k.Store)) // step 1 is of before
				for name, data := range c.left {
					memfs.WriteFile(t, l.dirs["a"], name, []byte(data), 0o600)
				}
				dir.Boot = c.boot
				h, err := CommitLeft(t.Context(), k, Left{Stamp: stampOf(1), Dir: &dir, Self: l.nodes[0]})
				if err != nil || (h.Number > 0) != c.taken {
					t.Fatalf("%+v, %v", h, err)
				}
				if c.taken && (h.Step == nil || *h.Step != 2) {
					t.Errorf("its step is %v", h.Step)
				}
				var m *manifest.Manifest
				if c.taken {
					m, err = k.Store.Manifest(h.Manifest)
					must(t, err)
				}
				must(t, capture.SetAside(k.Store, l.dirs["a"], dir, m))
				_, err = l.dirs["a"].Lstat("step-2")
				if gone := err != nil; gone == c.taken {
					t.Errorf("what was left is there: %v", !gone)
				}
			})
		})
	}
}

// A node that has what a generation resumes from knows at once that it was committed: it may die
// with the store before it reads the record again.
func TestCommitsAreNotedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, "a", "b")
		a, b := l.replicator("a", l.etcd.Client("a"), func(replicator.Event) {}),
			l.replicator("b", l.etcd.Client("b"), func(replicator.Event) {})
		dir := memfs.New()
		memfs.WriteFile(t, dir, "model.raw", []byte("weights"), 0o600)
		m, h := checkpointtest.Put(t, a.Store, dir, 1, 1)
		head, err := a.Record.Commit(t.Context(), manifest.Head{Generation: 1, Manifest: h, Bytes: m.Bytes()},
			manifest.Head{}, l.nodes[:1])
		must(t, err)
		l.propose(t, 2)
		_, _, err = b.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number, Manifest: h},
			capture.Dir{FS: l.dirs["b"]})
		must(t, err)
		if known, err := readonly.New(l.disks["b"]).Newest(); err != nil || known.Number != head.Number ||
			known.Manifest != h {
			t.Errorf("its disk knows of %+v, %v", known, err)
		}
	})
}
