package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// story is the scenario for all faults: a saves twice, each save is copied to b and committed, old
// ones are removed, and c fetches the commits. The guarantees are checked after a loss of power of
// each machine, and of all.
func story(t *testing.T, f *checkpointtest.Fault) (acked []replicator.Committed, c *cluster) {
	c = newCluster(t, "a", "b", "c")
	client := c.etcd.Client("a")
	for node, d := range c.disks {
		d.Machine.Hook = func(op, name string) error {
			if op == "lstat" || op == "space" {
				return nil // they change nothing, and their failure is that of the next operation
			}
			return f.Step(node)
		}
	}
	c.dirs["a"].Machine.Hook = func(op, name string) error {
		if op == "open" || op == "read" || op == "readdir" {
			return f.Step("a")
		}
		return nil
	}
	c.peers.Hook = func(op, node string) error { return f.Step("a") }
	var n atomic.Int64
	client.Fates(func(op memory.Op) memory.Fate {
		if f.Step("a") == nil {
			return memory.Fate{}
		}
		return memory.Fate{Lost: n.Add(1)%2 == 0, Mute: true} // applied without an answer, or not at all
	})
	r := newReports()
	k := c.replicator("a", client, r.add)
	k.Keep = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watcher, err := capture.Watch(capture.Dir{FS: c.dirs["a"]}, stampOf(1), alive, nil)
	if err != nil { // said by Start, and tried again
		watcher, err = capture.Watch(capture.Dir{FS: c.dirs["a"]}, stampOf(1), alive, nil)
	}
	if err != nil {
		return nil, c
	}
	l := start(ctx, k, watcher, nil)
	collect := func(wait time.Duration) {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for {
			select {
			case e := <-r.c:
				if e, ok := e.(replicator.Committed); ok {
					acked = append(acked, e)
					return
				}
			case <-timer.C:
				return
			}
		}
	}
	dir := c.dirs["a"]
	for i := range 2 {
		hook := dir.Set(nil, 1<<40) // the worker's own writes
		must(t, dir.Mkdir(fmt.Sprint("tmp-", i), 0o755))
		memfs.WriteFile(t, dir, fmt.Sprintf("tmp-%d/model.bin", i), memfs.Bytes(uint64(i), 2000), 0o600)
		memfs.WriteFile(t, dir, fmt.Sprintf("tmp-%d/same.bin", i), memfs.Bytes(99, 1000), 0o600)
		time.Sleep(time.Millisecond)
		must(t, dir.Rename(fmt.Sprint("tmp-", i), fmt.Sprint("step-", i)))
		dir.Set(hook, 1<<40)
		collect(2 * time.Minute)
	}
	tidying, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	_ = k.Tidy(tidying) // cut short or not
	cancel()
	<-l.Done()
	return acked, c
}

// Every i-th operation fails, or is a's last, until the story ends without
// meeting i: what was acknowledged survives, and nothing is ever there in part.
func TestEveryFault(t *testing.T) {
	for _, kind := range []string{"error", "crash"} {
		t.Run(kind, func(t *testing.T) {
			eachOperation(t, 1, 1, func(t *testing.T, at int64) bool {
				f := &checkpointtest.Fault{At: at, Kind: kind}
				acked, c := story(t, f)
				met := f.Hit.Load()
				if (kind == "error" || !met) && len(acked) != 2 {
					t.Errorf("operation %d: %d commits of 2", at, len(acked))
				}
				survive(t, c, acked, at)
				return met
			})
		})
	}
}

// eachOperation plays a story for every stride-th operation from the first on, until the story ends
// before it meets that operation.
func eachOperation(t *testing.T, first, stride int64, play func(*testing.T, int64) (met bool)) {
	t.Helper()
	for at := first; ; at += stride {
		met := false
		synctest.Test(t, func(t *testing.T) { met = play(t, at) })
		if t.Failed() {
			t.Fatalf("operation %d", at)
		}
		if !met {
			t.Logf("%d operations", at-1)
			return
		}
	}
}

// survive checks the promises after every loss of power.
func survive(t *testing.T, c *cluster, acked []replicator.Committed, seed int64) {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	for _, d := range c.disks {
		d.Machine.Hook = nil
	}
	c.peers.Hook = nil
	c.dirs["a"].Machine.Hook = nil
	head, _, err := recordOn(c.etcd.Client("test"), "test").Read(t.Context())
	must(t, err)
	for _, kept := range []func() bool{names(false), names(true), func() bool { return rng.IntN(2) == 0 }} {
		stores := map[string]*chunkstore.Store{}
		for node, d := range c.disks {
			stores[node] = reopen(t, d, kept)
			for _, h := range stores[node].Held() {
				if err := stores[node].Verify(t.Context(), h); err != nil {
					t.Errorf("node %s has half a checkpoint: %v", node, err)
				}
			}
		}
		if len(acked) > 0 {
			last := acked[len(acked)-1].Head
			if head.Number < last.Number {
				t.Errorf("checkpoint %d was acknowledged, %d is the head", last.Number, head.Number)
			}
		}
		if head.Number == 0 {
			continue
		}
		if head.Copies < 2 {
			t.Errorf("head has %d copies", head.Copies)
		}
		for _, lost := range head.Holders { // any one machine, for good
			peers := &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{}}
			for node, s := range stores {
				if node != lost.Node {
					peers.Stores[node] = s
				}
			}
			// A newcomer fetches what is left.
			k := &replicator.Replicator{Store: checkpointtest.OpenStore(t, memfs.New()), Peers: peers,
				Record: recordOn(c.etcd.Client("d"), "d"), Self: "d", Report: func(replicator.Event) {}}
			to := memfs.New()
			entry, _,
				err := k.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number,
				Manifest: head.Manifest}, capture.Dir{FS: to})
			if err != nil {
				t.Errorf("without %s: %v", lost.Node, err)
				continue
			}
			want := memfs.Contents(t, c.dirs["a"])
			for name := range want {
				if !strings.HasPrefix(name, entry+"/") {
					delete(want, name)
				}
			}
			if d := cmp.Diff(want, memfs.Contents(t, to)); d != "" || len(want) != 2 {
				t.Errorf("without %s: %s", lost.Node, d)
			}
		}
	}
}

// Every i-th operation of a Fetch and Restore fails, of the disk, the network or
// the store of the job, or is the last one: the next Prepare mends it.
func TestEveryFaultOfPrepare(t *testing.T) {
	for _, kind := range []string{"error", "crash"} {
		t.Run(kind, func(t *testing.T) { everyFaultOfPrepare(t, kind) })
	}
}

func everyFaultOfPrepare(t *testing.T, kind string) {
	from := memfs.New()
	memfs.WriteFile(t, from, "step-1/model.bin", memfs.Bytes(1, 3000), 0o600)
	memfs.WriteFile(t, from, "step-1/sub/optimizer.bin", memfs.Bytes(2, 3000), 0o640)
	memfs.WriteFile(t, from, "latest", []byte("step-1"), 0o600)
	for at := int64(1); ; at++ {
		met := false
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			_, h := checkpointtest.Put(t, c.peers.Stores["a"], from, 1, 1)
			k := c.replicator("a", c.etcd.Client("a"), func(replicator.Event) {})
			head, err := k.Record.Commit(t.Context(), manifest.Head{Generation: 1, Manifest: h},
				manifest.Head{}, c.nodes[:1])
			must(t, err)

			f := &checkpointtest.Fault{At: at, Kind: kind}
			to := memfs.New()
			memfs.WriteFile(t, to, "step-1/model.bin", []byte("torn"), 0o600) // from before
			memfs.WriteFile(t, to, "latest", []byte("step-0"), 0o600)
			for _, d := range []string{".", "step-1"} {
				must(t, to.SyncDir(d))
			}
			hook := func(op, name string) error { return f.Step("a") }
			c.disks["b"].Machine.Hook, to.Machine.Hook, c.peers.Hook = hook, hook, hook
			client := c.etcd.Client("b")
			client.Fates(func(memory.Op) memory.Fate { return memory.Fate{Lost: f.Step("a") != nil} })
			kb := c.replicator("b", client, func(replicator.Event) {})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _, err = kb.Prepare(ctx, replicator.Resume{Generation: 2, Number: head.Number, Manifest: h},
				capture.Dir{FS: to})
			c.peers.Hook = nil
			if met = f.Hit.Load(); err != nil && !met || err == nil && met && kind == "crash" {
				t.Errorf("operation %d, met %v: %v", at, met, err)
			}

			for _, kept := range []bool{false, true} {
				after := to.Crash(names(kept))
				if err == nil {
					if d := cmp.Diff(memfs.Contents(t, from), memfs.Contents(t, after)); d != "" {
						t.Errorf("operation %d: done, and then lost: %s", at, d)
					}
				}
				// A node that does not go on with it finds the old directory, or the whole new one.
				given := to.Crash(names(kept))
				must(t, restore.Clean(dirfs.NewScratchDisk(given)))
				got, want := memfs.Contents(t, given), memfs.Contents(t, from)
				if got["step-1/model.bin"] != want["step-1/model.bin"] &&
					!strings.HasSuffix(got["step-1/model.bin"], " torn") ||
					strings.Contains(fmt.Sprint(got), manifest.ReservedPrefix) {
					t.Errorf("operation %d: given up: %.200q", at, got)
				}
				for name, got := range memfs.Contents(t, after) {
					if name == "latest" && !strings.HasSuffix(got, "step-0") &&
						!strings.HasSuffix(got, "step-1") {
						t.Errorf("operation %d: torn file %s: %q", at, name, got)
					}
				}
				k := c.replicator("b", c.etcd.Client("b again"), func(replicator.Event) {})
				k.Store = reopen(t, c.disks["b"], names(kept))
				if _, _,
					err := k.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number,
					Manifest: h}, capture.Dir{FS: after}); err != nil {
					t.Errorf("operation %d: then: %v", at, err)
				}
				if d := cmp.Diff(memfs.Contents(t, from), memfs.Contents(t, after)); d != "" {
					t.Errorf("operation %d: %s", at, d)
				}
			}
		})
		if t.Failed() {
			t.FailNow()
		}
		if !met {
			t.Logf("%d operations", at-1)
			return
		}
	}
}
