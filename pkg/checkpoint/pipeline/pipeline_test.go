package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
)

// reports collects what a replicator and its pipelines report.
type reports struct{ c chan replicator.Event }

func newReports() reports { return reports{make(chan replicator.Event, 10_000)} }

func (r reports) add(e replicator.Event) {
	if _, ok := e.(replicator.Moving); !ok {
		r.c <- e
	}
}

// next waits for the next report, which must be an E.
func next[E replicator.Event](t *testing.T, r reports) E {
	t.Helper()
	got := <-r.c
	e, ok := got.(E)
	if !ok {
		t.Fatalf("reported %#v: %+v", got, got)
	}
	return e
}

// line starts a line on the node's directory.
func (c *cluster) line(
	t *testing.T, k *replicator.Replicator, stamp manifest.Stamp, w capture.Workers, resume *manifest.Manifest,
) *Pipeline {
	t.Helper()
	watcher, err := capture.Watch(capture.Dir{FS: c.dirs[k.Self]}, stamp, w, resume)
	must(t, err)
	return start(long(t), k, watcher, nil)
}

// capturing are nodes of which a captures saves of generation 1 while its workers live: what a reports,
// its replicator and its pipeline.
func capturing(t *testing.T, nodes ...string) (*cluster, reports, *replicator.Replicator, *Pipeline) {
	t.Helper()
	c, r := newCluster(t, nodes...), newReports()
	k := c.replicator("a", c.etcd.Client("a"), r.add)
	return c, r, k, c.line(t, k, stampOf(1), alive, nil)
}

// keeping is capturing with the nodes a and b, whose replicators run.
func keeping(t *testing.T) (*cluster, reports, *replicator.Replicator, *Pipeline) {
	t.Helper()
	c, r, k, l := capturing(t, "a", "b")
	go k.Run(long(t))
	go c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {}).Run(long(t))
	return c, r, k, l
}

// start is Start for a watcher that is open.
func start(ctx context.Context, r *replicator.Replicator, c watcher, with *Sharing) *Pipeline {
	l := newPipeline(r, c)
	l.begin(ctx, with)
	return l
}

// closes closes the pipeline, whose end is the next report.
func closes(t *testing.T, l *Pipeline, r reports) {
	t.Helper()
	l.Close()
	next[replicator.Closed](t, r)
}

// renamed saves a file the way that careful programs do.
func renamed(t testing.TB, dir *memfs.FS, name string, data []byte) {
	t.Helper()
	memfs.WriteFile(t, dir, name+".tmp", data, 0o600)
	time.Sleep(time.Millisecond) // the fake clock of the bubble
	must(t, dir.Rename(name+".tmp", name))
}

func TestSaveIsReplicatedCommittedAndRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a", "b", "c")
		must(t, c.dirs["a"].Mkdir("step-120.tmp", 0o755))
		memfs.WriteFile(t, c.dirs["a"], "step-120.tmp/model.pt",
			checkpointtest.Zip(t, map[string]string{"w": "weights"}), 0o644)
		time.Sleep(time.Second)
		must(t, c.dirs["a"].Rename("step-120.tmp", "step-120"))
		done := next[replicator.Committed](t, r)
		if h := done.Head; h.Number != 1 || h.Copies != 2 || *h.Step != 120 || h.Generation != 1 ||
			!h.HeldBy("a") ||
			!h.HeldBy("b") {
			t.Errorf("head: %+v", h)
		}
		if done.Took > 500*time.Millisecond {
			t.Errorf("took %v", done.Took)
		}
		l.Finish()
		if e := next[replicator.Closed](t, r); e.Err != nil {
			t.Error(e.Err)
		}

		// Another machine starts the next generation from it.
		c.propose(t, 2)
		c.gone(t, "a")
		delete(c.peers.Stores, "a")
		kc := c.replicator("c", c.etcd.Client("c"), r.add)
		path, m,
			err := kc.Prepare(long(t), replicator.Resume{Generation: 2, Number: done.Head.Number,
			Manifest: done.Head.Manifest}, capture.Dir{FS: c.dirs["c"]})
		must(t, err)
		if path != "step-120" || m.WorldSize != 2 {
			t.Errorf("path %q, manifest %+v", path, m)
		}
		if d := cmp.Diff(memfs.Contents(t, c.dirs["a"]), memfs.Contents(t, c.dirs["c"])); d != "" {
			t.Error(d)
		}
	})
}

// A worker of an older generation, or its agent, commits nothing however late.
func TestFencedLineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, k, _ := capturing(t, "a", "b")
		c.propose(t, 2)
		renamed(t, c.dirs["a"], "step-5.ckpt", []byte("late"))
		if e := next[replicator.Refused](t, r); e.Reason != "fenced" || e.Generation != 1 || *e.Step != 5 {
			t.Errorf("refused: %+v", e)
		}
		if e := next[replicator.Closed](t, r); !errors.Is(e.Err, chunkstore.ErrFenced) {
			t.Errorf("closed: %v", e.Err)
		}
		head, _, err := k.Record.Read(t.Context())
		if err != nil || head.Number != 0 {
			t.Errorf("head: %+v, %v", head, err)
		}
	})
}

func TestAloneCommitsOneCopyAndSpreadsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, k, l := capturing(t, "a")
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		h := next[replicator.Committed](t, r).Head
		if h.Copies != 1 {
			t.Errorf("copies: %d", h.Copies)
		}
		c.disks["b"] = memfs.New()
		c.peers.Stores["b"] = checkpointtest.OpenStore(t, c.disks["b"])
		c.join(t, "b", "1")
		k.Nodes(c.nodes)
		// Both have gone on to generation 3 since; the checkpoint is still of 1.
		must(t, k.Store.Raise(3))
		must(t, c.peers.Stores["b"].Raise(3))
		must(t, k.Spread(t.Context(), h.Generation, h.Manifest, 1))
		must(t, reopen(t, c.disks["b"], names(false)).Verify(t.Context(), h.Manifest))
		closes(t, l, r)
	})
}

// A node that came while the view of the others was old has a copy of the last save.
func TestANodeThatTheViewLacksHasACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a")
		c.disks["b"] = memfs.New()
		c.peers.Stores["b"] = checkpointtest.OpenStore(t, c.disks["b"])
		c.join(t, "b", "1")
		c.peers.Hook = func(string, string) error {
			time.Sleep(time.Second) // a copy takes time, and ends early if the node is not registered
			return nil
		}
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		if h := next[replicator.Committed](t, r).Head; h.Copies != 2 || !h.HeldBy("b") {
			t.Errorf("head: %+v", h)
		}
		closes(t, l, r)
	})
}

// A target that does not answer is replaced by another; one that is gone is not waited for.
func TestOtherTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "c")
		delete(c.peers.Stores, "b")
		r := newReports()
		k := c.replicator("a", c.etcd.Client("a"), r.add)
		l := c.line(t, k, stampOf(1), alive, nil)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		if h := next[replicator.Committed](t, r).Head; !h.HeldBy("c") || h.HeldBy("b") {
			t.Errorf("holders: %v", h.Holders)
		}
		delete(c.peers.Stores, "c")
		renamed(t, c.dirs["a"], "last.ckpt", []byte("two"))
		time.Sleep(5 * time.Second)
		if len(r.c) > 0 {
			t.Fatalf("reported %#v while two nodes may have copies", <-r.c)
		}
		c.gone(t, "b")
		c.gone(t, "c")
		k.Nodes(c.nodes)
		if h := next[replicator.Committed](t, r).Head; h.Number != 2 || h.Copies != 1 {
			t.Errorf("head: %+v", h)
		}
		closes(t, l, r)
	})
}

// A node that is cut from the store of the job alone and still answers gets a copy; no commit
// counts on it.
func TestCopyForANodeThatIsNotRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, k, l := capturing(t, "a", "b")
		c.gone(t, "b")
		k.Nodes(c.nodes)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		h := next[replicator.Committed](t, r).Head
		if h.Copies != 1 || h.HeldBy("b") {
			t.Errorf("head: %+v", h)
		}
		time.Sleep(time.Second)
		must(t, reopen(t, c.disks["b"], names(false)).Verify(t.Context(), h.Manifest))
		closes(t, l, r)
	})
}

// A target that froze is let go when it is evicted, not before and not later.
func TestFrozenTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "c")
		c.peers.Frozen = "b"
		r := newReports()
		k := c.replicator("a", c.etcd.Client("a"), r.add)
		l := c.line(t, k, stampOf(1), alive, nil)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		time.Sleep(20 * time.Second)
		if len(r.c) > 0 {
			t.Fatalf("reported %#v", <-r.c)
		}
		c.gone(t, "b")
		evicted := time.Now()
		k.Nodes(c.nodes)
		if h := next[replicator.Committed](t, r).Head; !h.HeldBy("c") || time.Since(evicted) > time.Second {
			t.Errorf("holders %v after %v", h.Holders, time.Since(evicted))
		}
		closes(t, l, r)
	})
}

// The disk of a node stands still while its agent lives. The first save waits ten seconds for it,
// and the next one goes to another node at once. After half a minute the node is asked again.
func TestTargetWhoseDiskStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "c")
		still := true
		c.peers.To = func(ctx context.Context, op string, to membership.Ref) (*chunkstore.Store, error) {
			if to.Node == "b" && still {
				time.Sleep(10 * time.Second)
				return nil, fmt.Errorf("node b: %w", transfer.ErrNoAnswer)
			}
			return c.peers.Stores[to.Node], nil
		}
		r := newReports()
		l := c.line(t, c.replicator("a", c.etcd.Client("a"), r.add), stampOf(1), alive, nil)
		for i, want := range []struct {
			holder string
			within time.Duration
		}{{"c", 21 * time.Second}, {"c", time.Second}} {
			saved := time.Now()
			renamed(t, c.dirs["a"], "last.ckpt", fmt.Append(nil, i))
			if i == 0 {
				if late := next[replicator.Late](t, r); late.Node != "b" {
					t.Errorf("late: %+v", late)
				}
			}
			h := next[replicator.Committed](t, r).Head
			if took := time.Since(saved); !h.HeldBy(want.holder) || took > want.within {
				t.Errorf("save %d: holders %v after %v", i, h.Holders, took)
			}
		}
		still = false
		time.Sleep(30 * time.Second)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("three"))
		if h := next[replicator.Committed](t, r).Head; !h.HeldBy("b") {
			t.Errorf("after half a minute: %v", h.Holders)
		}
		closes(t, l, r)
	})
}

// A holder that crashed between its acknowledgement and the commit does not count.
func TestHolderGoneBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "c")
		r := newReports()
		k := c.replicator("a", c.etcd.Client("a"), r.add)
		acked := 0
		c.peers.Hook = func(op, node string) error {
			if op == "offer" && node == "b" {
				if acked++; acked == 1 {
					c.gone(t, "b") // its last words; a has not heard of it
					time.AfterFunc(2*time.Second, func() { k.Nodes(c.nodes) })
				}
			}
			return nil
		}
		l := c.line(t, k, stampOf(1), alive, nil)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		if h := next[replicator.Committed](t, r).Head; h.HeldBy("b") || !h.HeldBy("c") {
			t.Errorf("holders: %v", h.Holders)
		}
		closes(t, l, r)
	})
}

// A holder that lost its lease and registered again, as the same life, holds on.
func TestHolderRegisteredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		r := newReports()
		k := c.replicator("a", c.etcd.Client("a"), r.add)
		c.join(t, "b", "1")
		l := c.line(t, k, stampOf(1), alive, nil)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		if h := next[replicator.Committed](t, r).Head; !h.HeldBy("b") || h.Copies != 2 {
			t.Errorf("head: %+v", h)
		}
		closes(t, l, r)
	})
}

// While etcd is away nothing is said to be saved; when it is back it is, once.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		r := newReports()
		client := c.etcd.Client("a")
		k := c.replicator("a", client, r.add)
		l := c.line(t, k, stampOf(1), alive, nil)
		client.Cut(true)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		time.Sleep(10 * time.Minute)
		if len(r.c) > 0 {
			t.Fatalf("reported %#v", <-r.c)
		}
		client.Cut(false)
		if h := next[replicator.Committed](t, r).Head; h.Number != 1 {
			t.Errorf("head: %+v", h)
		}
		l.Finish()
		next[replicator.Closed](t, r)
		if _, all, _ := k.Record.Read(t.Context()); len(all) != 1 {
			t.Errorf("commits: %v", all)
		}
	})
}

// Two lines of one generation cannot be; if they were, the second would undo nothing.
func TestNoOtherNodeCommitsAsThisGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		r := newReports()
		k := c.replicator("a", c.etcd.Client("a"), r.add)
		_, err := recordOn(c.etcd.Client("x"), "x").
			Commit(t.Context(), manifest.Head{Generation: 1, Manifest: manifest.Hash{1}}, manifest.Head{},
				nil)
		must(t, err)
		c.line(t, k, stampOf(1), alive, nil)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("one"))
		if e := next[replicator.Refused](t, r); e.Reason != "fenced" {
			t.Errorf("refused: %+v", e)
		}
		next[replicator.Closed](t, r)
	})
}

func TestKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, k, l := keeping(t)
		for i := range 6 {
			renamed(t, c.dirs["a"], "last.ckpt", memfs.Bytes(uint64(i), 1000))
			next[replicator.Committed](t, r)
		}
		time.Sleep(time.Minute)
		for node, s := range c.peers.Stores {
			chunks, err := c.disks[node].ReadDir("chunks")
			must(t, err)
			if got := s.Numbers(); !slices.Equal(got, []manifest.Number{4, 5, 6}) || len(s.Held()) != 3 ||
				len(chunks) != 3 {
				t.Errorf("%s: numbers %v, %d manifests, %d chunks", node, got, len(s.Held()), len(chunks))
			}
		}
		from, err := k.Record.InventoryHolders(t.Context(), 6)
		if want := []membership.Ref{c.nodes[0].Ref, c.nodes[1].Ref}; err != nil || !slices.Equal(from, want) {
			t.Errorf("held/: %v, %v", from, err)
		}
		closes(t, l, r)
	})
}

// The planned end: the workers save a last time and leave; that save is taken.
func TestLastSave(t *testing.T) {
	for _, c := range []struct {
		name string
		end  capture.WorkerState
		want bool
	}{{"ended", capture.Exited, true}, {"killed", capture.Killed, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, "a", "b")
				r := newReports()
				k := cl.replicator("a", cl.etcd.Client("a"), r.add)
				state := capture.Running
				l := cl.line(t, k, stampOf(1),
					capture.Workers{State: func() capture.WorkerState { return state }}, nil)
				memfs.WriteFile(t, cl.dirs["a"], "model.pt",
					checkpointtest.Zip(t, map[string]string{"w": "in place"}), 0o600)
				state = c.end
				l.Finish()
				if c.want {
					next[replicator.Committed](t, r)
				} else if e := next[replicator.Refused](t, r); e.Reason != "torn" {
					t.Errorf("refused: %+v", e)
				}
				if e := next[replicator.Closed](t, r); e.Err != nil {
					t.Error(e.Err)
				}
			})
		})
	}
}

func TestNoSpaceIsSaidOnceAndTrainingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a", "b")
		c.disks["a"].Set(nil, 10)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("too large"))
		if e := next[replicator.Refused](t, r); e.Reason != "no-space" {
			t.Errorf("refused: %+v", e)
		}
		for n := range 50 { // once a minute, and not with each save
			renamed(t, c.dirs["a"], "last.ckpt", fmt.Appendf(nil, "too large %d", n))
			time.Sleep(time.Second)
		}
		c.disks["a"].Set(nil, 1<<40) // the newest save is taken once there is room
		next[replicator.Committed](t, r)
		c.disks["a"].Set(nil, 10)
		time.Sleep(time.Minute)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("too large again"))
		if e := next[replicator.Refused](t, r); e.Reason != "no-space" {
			t.Errorf("refused: %+v", e)
		}
		c.disks["a"].Set(nil, 1<<40)
		closes(t, l, r)
	})
}

// A disk that refuses to be written refuses each save. That is said once a minute, as what it is,
// and the first save that it takes again is committed.
func TestDiskThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a", "b")
		renamed(t, c.dirs["a"], "last.ckpt", []byte("before"))
		next[replicator.Committed](t, r)
		c.disks["a"].Set(func(op, name string) error {
			if op == "create" || op == "syncdir" {
				return &fs.PathError{Op: "openat", Path: name, Err: syscall.EACCES}
			}
			return nil
		}, 1<<40)
		for n := range 50 {
			renamed(t, c.dirs["a"], "last.ckpt", fmt.Appendf(nil, "refused %d", n))
			time.Sleep(time.Second)
		}
		if e := next[replicator.Refused](t, r); e.Reason != "disk" || e.Path != "last.ckpt" {
			t.Errorf("refused: %+v", e)
		}
		c.disks["a"].Set(nil, 1<<40)
		renamed(t, c.dirs["a"], "last.ckpt", []byte("taken"))
		next[replicator.Committed](t, r)
		closes(t, l, r)
	})
}

// A file that cannot be read keeps every save from being taken: that is said once a minute for as
// long as it is so.
func TestFileThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a", "b")
		renamed(t, c.dirs["a"], "last.ckpt", []byte("before"))
		next[replicator.Committed](t, r)
		c.dirs["a"].Set(func(op, name string) error {
			if op == "open" && name == "other.bin" {
				return &fs.PathError{Op: "openat", Path: name, Err: syscall.EACCES}
			}
			return nil
		}, 1<<40)
		memfs.WriteFile(t, c.dirs["a"], "other.bin", []byte("of another user"), 0o600)
		time.Sleep(time.Second)
		for n := range 100 {
			renamed(t, c.dirs["a"], "last.ckpt", fmt.Appendf(nil, "refused %d", n))
			time.Sleep(time.Second)
		}
		for range 2 {
			if e := next[replicator.Refused](t, r); e.Reason != "unreadable" {
				t.Errorf("refused: %+v", e)
			}
		}
		c.dirs["a"].Set(nil, 1<<40)
		next[replicator.Committed](t, r)
		closes(t, l, r)
	})
}

// Saves that are written over faster than they can be copied are reported, and the first that is not is
// taken.
func TestWrittenOverWhileCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _, l := capturing(t, "a")
		dir, n := c.dirs["a"], 0
		dir.Machine.Hook = func(op, name string) error {
			if _, _, file, _ := dir.Find("", "last.ckpt"); op == "read" && name == "last.ckpt" && file != nil {
				n++
				file.Mtime = file.Mtime.Add(time.Millisecond)
				dir.Note(name, dirfs.Wrote)
				dir.Note(name, dirfs.Closed)
			}
			return nil
		}
		renamed(t, dir, "last.ckpt", []byte("never the same"))
		began := time.Now()
		e := next[replicator.Refused](t, r)
		if e.Reason != capture.Overwritten || e.Path != "last.ckpt" || time.Since(began) > 15*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), e)
		}
		time.Sleep(30 * time.Second)
		if len(r.c) > 0 {
			t.Errorf("reported again: %+v", <-r.c)
		}
		dir.Set(nil, 1<<40)
		next[replicator.Committed](t, r)
		closes(t, l, r)
	})
}

// What is damaged on this disk comes from another.
func TestPrepareMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		memfs.Model(t, c.dirs["a"])
		s := c.peers.Stores["a"]
		m, h := checkpointtest.Put(t, s, c.dirs["a"], 1, 1)
		k := c.replicator("a", c.etcd.Client("a"), func(replicator.Event) {})
		must(t, k.Spread(t.Context(), 1, h, 1))
		head, err := k.Record.Commit(t.Context(),
			manifest.Head{Generation: 1, Manifest: h}, manifest.Head{}, c.nodes)
		must(t, err)
		checkpointtest.Flip(t, c.disks["a"], m.Files[len(m.Files)-1].Chunks[0])
		_, _, err = k.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number, Manifest: h},
			capture.Dir{FS: memfs.New()})
		must(t, err)
		must(t, s.Verify(t.Context(), h))

		// The holders of the record are gone; held/ lists a node that got a copy later.
		c.disks["c"] = memfs.New()
		c.peers.Stores["c"] = checkpointtest.OpenStore(t, c.disks["c"])
		c.join(t, "c", "1")
		k.Nodes(c.nodes)
		must(t, k.Spread(t.Context(), 2, h, 2))
		must(t, k.Record.PublishInventory(t.Context(), "c", []manifest.Number{head.Number}))
		c.gone(t, "a")
		c.gone(t, "b")
		c.peers.Stores["d"] = checkpointtest.OpenStore(t, memfs.New())
		kd := c.replicator("d", c.etcd.Client("d"), func(replicator.Event) {})
		_, _, err = kd.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number,
			Manifest: h}, capture.Dir{FS: memfs.New()})
		must(t, err)
		if noted, _ := kd.Store.Newest(); noted.Compare(head) != 0 {
			t.Errorf("it notes %+v as %+v", head, noted)
		}

		checkpointtest.Flip(t, c.disks["a"], m.Files[len(m.Files)-1].Chunks[0])
		delete(c.peers.Stores, "b")
		delete(c.peers.Stores, "c")
		if _, _,
			err = k.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number, Manifest: h},
			capture.Dir{FS: memfs.New()}); !errors.Is(err,
			chunkstore.ErrNotHeld) {
			t.Errorf("no node has it: %v", err)
		}
	})
}

// A notice brings the next look forward; without one the next tick finds the save.
func TestNoticeBringsTheLookForward(t *testing.T) {
	for _, reported := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			r := newReports()
			k := c.replicator("a", c.etcd.Client("a"), r.add)
			watcher, err := capture.Watch(capture.Dir{FS: c.dirs["a"]}, stampOf(1), alive, nil)
			must(t, err)
			n := resting{watcher, make(chan struct{}, 1)}
			l := start(long(t), k, n, nil)
			renamed(t, c.dirs["a"], "last.ckpt", []byte("the first save"))
			next[replicator.Committed](t, r)
			time.Sleep(22 * time.Second) // it rests
			synctest.Wait()
			began := time.Now()
			renamed(t, c.dirs["a"], "last.ckpt", []byte("saved"))
			if reported {
				n.reported <- struct{}{}
			}
			next[replicator.Committed](t, r)
			if took := time.Since(began); (took < time.Second) != reported || took > 5*time.Second {
				t.Errorf("reported %v: committed after %v", reported, took)
			}
			closes(t, l, r)
		})
	}
}

// resting is a watcher whose directory is watched by the kernel, as it seems.
type resting struct {
	*capture.Watcher
	reported chan struct{}
}

func (r resting) Pause() time.Duration { return 200 * time.Millisecond }
func (r resting) Rest() time.Duration {
	if busy := r.Watcher.Rest(); busy < r.Pause() {
		return busy
	}
	return 5 * time.Second
}
func (r resting) Notice() <-chan struct{} { return r.reported }
