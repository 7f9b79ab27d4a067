package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// team is the pipelines of all nodes of a generation that save together.
type team struct {
	*cluster
	t           *testing.T
	with        Sharing
	copies      int
	replicators map[string]*replicator.Replicator
	lines       map[string]*Pipeline
	reports     map[string]reports
}

func newTeam(t *testing.T, all bool, names ...string) *team { return newTeamOf(t, 2, all, names...) }

// newTeamOf is newTeam with so many copies of each save.
func newTeamOf(t *testing.T, copies int, all bool, names ...string) *team {
	x := &team{cluster: newCluster(t, names...), t: t, copies: copies,
		replicators: map[string]*replicator.Replicator{}, lines: map[string]*Pipeline{},
		reports: map[string]reports{}}
	x.with.All = all
	for _, n := range x.nodes {
		x.with.Members = append(x.with.Members, n.Ref)
	}
	for _, n := range names {
		x.open(n, stampOf(1), nil)
	}
	return x
}

// open starts the pipeline of one node.
func (x *team) open(node string, stamp manifest.Stamp, resume *manifest.Manifest) {
	x.t.Helper()
	r := newReports()
	k := x.replicator(node, x.etcd.Client(node), r.add)
	k.Replicas = x.copies
	w := Writers{Workers: alive, With: &x.with}
	w.Share = w.share(node, resume)
	watcher, err := capture.Watch(capture.Dir{FS: x.dirs[node]}, stamp, w.Workers, resume)
	must(x.t, err)
	x.replicators[node], x.reports[node] = k, r
	x.lines[node] = start(long(x.t), k, watcher, w.With)
}

// save writes the directory of a step on one node, under its name by a rename.
func (x *team) save(node string, step int, files map[string]string) {
	x.t.Helper()
	dir := x.dirs[node]
	must(x.t, dir.Mkdir("writing.tmp", 0o755))
	for name, data := range files {
		memfs.WriteFile(x.t, dir, "writing.tmp/"+name, []byte(data), 0o600)
	}
	time.Sleep(time.Millisecond)
	must(x.t, dir.Rename("writing.tmp", fmt.Sprintf("step-%d", step)))
}

func (x *team) close() {
	for _, l := range x.lines {
		l.Close()
	}
	for _, l := range x.lines {
		<-l.Done()
	}
}

// quiet fails if the node has anything to say within a while.
func (x *team) quiet(node string) {
	x.t.Helper()
	time.Sleep(5 * time.Second)
	select {
	case e := <-x.reports[node].c:
		x.t.Errorf("node %s reported %+v", node, e)
	default:
	}
}

// whole is what the checkpoint has after a new node has fetched it, while the named ones are gone.
func (x *team) whole(h manifest.Head, without ...string) map[string]string {
	x.t.Helper()
	peers := &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{}}
	for n, s := range x.peers.Stores {
		if !slices.Contains(without, n) {
			peers.Stores[n] = s
		}
	}
	k := &replicator.Replicator{Store: checkpointtest.OpenStore(x.t, memfs.New()), Peers: peers,
		Record: recordOn(x.etcd.Client("new"), "new"), Self: "new", Report: func(replicator.Event) {}}
	to := memfs.New()
	_, _, err := k.Prepare(x.t.Context(),
		replicator.Resume{Generation: 2, Number: h.Number, Manifest: h.Manifest}, capture.Dir{FS: to})
	must(x.t, err)
	return memfs.Contents(x.t, to)
}

// A save is committed when every node has its part of it; whichever node is lost then, all of it is
// there.
func TestPartsAreCommittedAsOneCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		x.save("a", 10, map[string]string{"shard_0": "zero", "config": "same"})
		x.save("b", 10, map[string]string{"shard_1": "one", "config": "same"})
		x.quiet("a") // a part alone is no checkpoint
		x.save("c", 10, map[string]string{"shard_2": "two"})
		done := next[replicator.Committed](t, x.reports["a"])
		if h := done.Head; h.Number != 1 || h.Copies != 2 || *h.Step != 10 || h.Bytes != 14 {
			t.Errorf("head: %+v", h)
		}
		want := map[string]string{"step-10/shard_0": "zero", "step-10/shard_1": "one",
			"step-10/shard_2": "two", "step-10/config": "same"}
		for _, lost := range []string{"a", "b", "c"} {
			got := x.whole(done.Head, lost)
			for name, data := range want {
				if !strings.HasSuffix(got[name], data) {
					t.Errorf("without %s: %q", lost, got)
				}
			}
			if len(got) != len(want) {
				t.Errorf("without %s: %q", lost, got)
			}
		}
	})
}

// Parts are together by their step, however they are spread over time.
func TestPartsOfDifferentStepsAreNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		x.save("a", 10, map[string]string{"s0": "10"})
		x.save("b", 20, map[string]string{"s1": "20"})
		x.quiet("a")
		x.save("a", 30, map[string]string{"s0": "30"})
		time.Sleep(20 * time.Second)
		e := next[replicator.Refused](t, x.reports["a"])
		if e.Reason != capture.MissingPart ||
			!strings.Contains(e.Err.Error(), "step 30: node b has no part of it, its newest is of step 20") {
			t.Errorf("%+v", e)
		}
		x.save("b", 30, map[string]string{"s1": "30"})
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 30 {
			t.Errorf("head: %+v", h)
		}
	})
}

// The script of one node saves a step a second time: the parts may be of two moments.
func TestAStepThatIsSavedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		x.save("b", 10, map[string]string{"s1": "first"})
		time.Sleep(5 * time.Second)
		must(t, x.dirs["b"].Rename("step-10", "old.tmp"))
		x.save("b", 10, map[string]string{"s1": "again"})
		time.Sleep(5 * time.Second)
		x.save("a", 10, map[string]string{"s0": "once"})
		time.Sleep(20 * time.Second)
		e := next[replicator.Refused](t, x.reports["a"])
		if !strings.Contains(e.Err.Error(), "node b saved step 10 twice with different bytes") {
			t.Errorf("%+v", e)
		}
	})
}

// A script marks a save a second time, with another position: the files are the same.
func TestASaveThatIsMarkedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		for i, position := range []string{`{"step": 10}`, `{"step": 10, "epoch": 1}`} {
			for _, node := range []string{"b", "a"} {
				if i == 0 {
					memfs.WriteFile(t, x.dirs[node], "out/s-"+node, []byte("once"), 0o600)
				}
				memfs.WriteFile(t, x.dirs[node], "out/.elastic-commit", []byte(position), 0o600)
				time.Sleep(5 * time.Second)
			}
		}
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 10 {
			t.Errorf("head: %+v", h)
		}
		x.quiet("a")
	})
}

func TestDifferentBytesUnderOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		x.save("a", 10, map[string]string{"model": "of a"})
		x.save("b", 10, map[string]string{"model": "of b"})
		e := next[replicator.Refused](t, x.reports["a"])
		if e.Reason != capture.MixedParts ||
			!strings.HasSuffix(e.Err.Error(),
				"step 10: nodes a and b saved different bytes under the name step-10/model") {
			t.Errorf("%+v", e)
		}
		x.save("a", 20, map[string]string{"model-a": "of a"})
		x.save("b", 20, map[string]string{"model-b": "of b"})
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 20 {
			t.Errorf("head: %+v", h)
		}
	})
}

// A node is lost with its disk between its report and the commit, and has no copy: that save is lost,
// and no other.
func TestANodeDiesBetweenItsReportAndTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		var lost atomic.Bool
		x.peers.Hook = func(op, node string) error {
			switch {
			case lost.Load() && node == "c":
				return errors.New("no route")
			case !lost.Load() && op == "offer":
				return errors.New("no copies")
			}
			return nil
		}
		x.save("c", 10, map[string]string{"s2": "2"})
		x.save("b", 10, map[string]string{"s1": "1"})
		time.Sleep(2 * time.Second)
		lost.Store(true)
		x.gone(t, "c")
		x.replicators["a"].Nodes(x.nodes)
		x.save("a", 10, map[string]string{"s0": "0"})
		e := next[replicator.Refused](t, x.reports["a"])
		if !strings.Contains(e.Err.Error(), "step 10: the part of node c cannot be read") {
			t.Errorf("%+v", e)
		}
		if head, _, err := x.replicators["a"].Record.Read(t.Context()); err != nil || head.Number != 0 {
			t.Errorf("head: %+v, %v", head, err)
		}
	})
}

// A node is lost after its part was copied, and the node with the copy does not answer for a moment:
// the save waits for that node.
func TestTheCopyOfAPartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		var cut, lost atomic.Bool
		x.peers.Hook = func(_, node string) error {
			if cut.Load() && node == "c" || lost.Load() && node == "b" {
				return errors.New("no route")
			}
			return nil
		}
		x.save("c", 10, map[string]string{"s2": "2"})
		x.save("b", 10, map[string]string{"s1": "1"})
		time.Sleep(2 * time.Second)
		cut.Store(true)
		lost.Store(true)
		x.gone(t, "b")
		x.replicators["a"].Nodes(x.nodes)
		x.save("a", 10, map[string]string{"s0": "0"})
		time.Sleep(partPatience / 2)
		cut.Store(false)
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 10 {
			t.Errorf("head: %+v", h)
		}
	})
}

// The fence moves before the last part is there: nothing is committed any more.
func TestPartsBehindTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		x.save("a", 10, map[string]string{"s0": "0"})
		time.Sleep(2 * time.Second)
		x.propose(t, 2)
		x.save("b", 10, map[string]string{"s1": "1"})
		if e := next[replicator.Closed](t, x.reports["b"]); !errors.Is(e.Err, chunkstore.ErrFenced) {
			t.Errorf("closed: %v", e.Err)
		}
		x.save("a", 20, map[string]string{"s0": "0"})
		if e := next[replicator.Closed](t, x.reports["a"]); !errors.Is(e.Err, chunkstore.ErrFenced) {
			t.Errorf("closed: %v", e.Err)
		}
		if head, _, err := x.replicators["a"].Record.Read(t.Context()); err != nil || head.Number != 0 {
			t.Errorf("head: %+v, %v", head, err)
		}
	})
}

// A report of an earlier incarnation of a node, or under another node's name, counts for nothing.
func TestReportsOfOthersCountNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		from := memfs.New()
		memfs.WriteFile(t, from, "step-10/s1", []byte("1"), 0o600)
		_, h := checkpointtest.Put(t, x.peers.Stores["b"], from, 1, 1)
		wrong := parts.Report{Generation: 1,
			Node:  membership.Ref{Node: "b", Incarnation: "0", Address: "b:1"},
			Parts: []parts.Part{{Step: 10, Sequence: 1, Manifest: h}}}
		x.write(t, store.Put(testJob.PartsOf(1, "b"), schema.Encode(wrong)))
		x.write(t, store.Put(testJob.PartsOf(1, "c"),
			schema.Encode(parts.Report{Generation: 1, Node: x.with.Members[1], Parts: wrong.Parts})))
		x.write(t, store.Put(testJob.PartsOf(1, "d"), []byte("rubbish")))
		x.save("a", 10, map[string]string{"s0": "0"})
		x.quiet("a")
	})
}

// What came before the newest commit is removed from all disks, and nothing that may still be
// committed.
func TestOldPartsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		for step := 10; step <= 50; step += 10 {
			x.save("a", step, map[string]string{"s0": fmt.Sprint("a", step)})
			x.save("b", step, map[string]string{"s1": fmt.Sprint("b", step)})
			if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != int64(step) {
				t.Fatalf("head: %+v", h)
			}
		}
		x.save("b", 60, map[string]string{"s1": "b60"})
		time.Sleep(10 * time.Second)
		for _, n := range []string{"a", "b"} {
			must(t, x.replicators[n].Tidy(t.Context()))
		}
		for _, n := range []string{"a", "b"} {
			if held := len(x.peers.Stores[n].Held()); held != 7 {
				t.Errorf("%s holds %d manifests, not both parts of 3 checkpoints and the newest part of b", n, held)
			}
		}
		x.save("a", 60, map[string]string{"s0": "a60"})
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 60 {
			t.Errorf("head: %+v", h)
		}
	})
}

// The workers of all nodes end: the last save is committed before any pipeline is through.
func TestTheLastSaveOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		x.save("b", 10, map[string]string{"s1": "1"})
		x.lines["b"].Finish()
		time.Sleep(3 * time.Second)
		select {
		case <-x.lines["b"].Done():
			t.Error("b is through before its part is committed")
		default:
		}
		x.save("a", 10, map[string]string{"s0": "0"})
		x.lines["a"].Finish()
		next[replicator.Committed](t, x.reports["a"])
		if e := next[replicator.Closed](t, x.reports["a"]); e.Err != nil {
			t.Error(e.Err)
		}
		if e := next[replicator.Closed](t, x.reports["b"]); e.Err != nil {
			t.Error(e.Err)
		}
	})
}

// All nodes are through, and one of them has no part of the newest save: the job does not wait for
// it.
func TestTheLastSaveLacksAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		x.save("a", 10, map[string]string{"s0": "0"})
		began := time.Now()
		x.lines["a"].Finish()
		x.lines["b"].Finish()
		e := next[replicator.Refused](t, x.reports["a"])
		if e.Reason != capture.MissingPart ||
			!strings.HasSuffix(e.Err.Error(), "step 10: node b has no part of it") {
			t.Errorf("%+v", e)
		}
		next[replicator.Closed](t, x.reports["a"])
		next[replicator.Closed](t, x.reports["b"])
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// metadataOf is a pickle of one string.
func metadataOf(names string) string { return "\x80\x04\x8c" + string(rune(len(names))) + names + "." }

// Of a shard format that nothing but its names shows: all nodes take part, and it is said.
// .metadata tells which shards there must be, and rank 0's node writes it.
func TestShardsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, false, "a", "b")
		defer x.close()
		metadata := metadataOf("__0_0.distcp and __1_0.distcp twice __1_0.distcp")
		must(t, x.dirs["b"].Mkdir("step-10", 0o755))
		memfs.WriteFile(t, x.dirs["b"], "step-10/__1_0.distcp", []byte("one"), 0o600)
		x.put("b", "step-11/__1_0.distcp", "the next save of b begins")
		x.save("a", 10, map[string]string{"__0_0.distcp": "zero", ".metadata": metadata})
		if e := next[replicator.Sharded](t, x.reports["a"]); e.Format != "torch.distributed.checkpoint" {
			t.Errorf("%+v", e)
		}
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 10 {
			t.Errorf("head: %+v", h)
		}
		x.save("a", 20, map[string]string{"__0_0.distcp": "only", ".metadata": metadataOf("__0_0.distcp")})
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 20 {
			t.Errorf("all shards on one node: %+v", h)
		}
	})
}

// A shard that .metadata names is not there: the save waits for it, and it is named.
func TestAShardIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		must(t, x.dirs["b"].Mkdir("step-10", 0o755))
		memfs.WriteFile(t, x.dirs["b"], "step-10/__1_0.distcp", []byte("one"), 0o600)
		metadata := metadataOf("__0_0.distcp __1_0.distcp __1_1.distcp")
		x.put("b", "step-11/__1_0.distcp", "the next save of b begins")
		x.save("a", 10, map[string]string{"__0_0.distcp": "zero", ".metadata": metadata})
		time.Sleep(20 * time.Second)
		e := next[replicator.Refused](t, x.reports["a"])
		if !strings.Contains(e.Err.Error(),
			"the shard step-10/__1_1.distcp is missing, which step-10/.metadata names") {
			t.Errorf("%+v", e)
		}
		memfs.WriteFile(t, x.dirs["b"], "step-10/__1_1.distcp", []byte("more"), 0o600)
		if h := next[replicator.Committed](t, x.reports["a"]).
			Head; h.Bytes != int64(len("zeroonemore")+len(metadata)) {
			t.Errorf("head: %+v", h)
		}
	})
}

// The next generation of another size starts from the whole checkpoint. A node's part does not
// include restored files of other nodes.
func TestTheNextGenerationSavesItsOwnParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		for _, n := range []string{"a", "b"} {
			x.save(n, 10, map[string]string{n: n})
		}
		head := next[replicator.Committed](t, x.reports["a"]).Head
		x.close()
		x.propose(t, 2)
		stamp := stampOf(2)
		for _, n := range []string{"a", "b"} {
			_, m, err := x.replicators[n].Prepare(t.Context(), replicator.Resume{Generation: 2,
				Number: head.Number, Manifest: head.Manifest}, capture.Dir{FS: x.dirs[n]})
			must(t, err)
			x.open(n, stamp, m)
		}
		defer x.close()
		if d := cmp.Diff(memfs.Contents(t, x.dirs["a"]), memfs.Contents(t, x.dirs["b"])); d != "" {
			t.Errorf("the directories differ: %s", d)
		}
		for _, n := range []string{"b", "a"} {
			x.save(n, 20, map[string]string{n: n})
		}
		head = next[replicator.Committed](t, x.reports["a"]).Head
		got := x.whole(head, "")
		if len(got) != 2 || !strings.HasSuffix(got["step-20/a"], "a") || !strings.HasSuffix(got["step-20/b"], "b") {
			t.Errorf("%q", got)
		}
	})
}

// A store that was lost is not made again from the part of one node, and what rank 0 left is not
// committed if it is a part, captured or not.
func TestAPartIsNotBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		x.save("b", 10, map[string]string{"s1": "1"})
		time.Sleep(5 * time.Second)
		x.close()
		dir := capture.Dir{FS: x.dirs["b"]}
		w, err := capture.Watch(dir, stampOf(1), capture.Workers{}, nil)
		must(t, err)
		must(t, w.RecordFingerprints(x.peers.Stores["b"]))
		x.save("b", 20,
			map[string]string{"__0_0.distcp": "0", ".metadata": metadataOf("__0_0.distcp __1_0.distcp")})
		if h, err := CommitLeft(t.Context(), x.replicators["b"],
			Left{Stamp: stampOf(1), Dir: &dir, Self: x.nodes[1]}); err != nil || h.Number != 0 {
			t.Errorf("committed %+v, %v", h, err)
		}
		if found, err := readonly.FindNewest(t.Context(), readonly.New(x.disks["b"])); err != nil || found != nil {
			t.Errorf("it brings %+v, %v", found, err)
		}
	})
}

// A node is the second holder of checkpoints, and its own captures were fewer: their numbers say
// nothing of parts.
func TestAPartOutlivesNewerCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b")
		defer x.close()
		for step := 10; step <= 40; step += 10 { // only a captures these
			x.save("a", step, map[string]string{"s0": fmt.Sprint("a", step)})
			time.Sleep(time.Second)
		}
		x.save("a", 50, map[string]string{"s0": "a50"})
		x.save("b", 50, map[string]string{"s1": "b50"})
		next[replicator.Committed](t, x.reports["a"])
		x.save("b", 60, map[string]string{"s1": "b60"})
		time.Sleep(5 * time.Second)
		for _, n := range []string{"a", "b"} {
			must(t, x.replicators[n].Tidy(t.Context()))
		}
		x.save("a", 60, map[string]string{"s0": "a60"})
		if h := next[replicator.Committed](t, x.reports["a"]).Head; *h.Step != 60 || h.Parts == nil {
			t.Errorf("head: %+v", h)
		}
	})
}

// A report arrives after the next one of its node, or in the next generation: it changes nothing.
func TestALateReportChangesNothing(t *testing.T) {
	c := newCluster(t, "a", "b")
	r := recordOn(c.etcd.Client("b"), "b")
	ctx := t.Context()
	of := func(step int64) parts.Report {
		return parts.Report{Generation: 1, Node: c.nodes[1].Ref,
			Parts: []parts.Part{{Step: step, Sequence: uint64(step)}}}
	}
	first, err := r.ReportParts(ctx, of(10), 0)
	must(t, err)
	_, err = r.ReportParts(ctx, of(20), first)
	must(t, err)
	if _, err := r.ReportParts(ctx, of(15), first); !errors.Is(err, store.ErrMoved) {
		t.Errorf("over a newer one: %v", err)
	}
	got, err := r.ReadParts(ctx, 1)
	if err != nil || len(got) != 1 || got[0].Parts[0].Step != 20 {
		t.Errorf("%+v %v", got, err)
	}
	c.propose(t, 2)
	c.write(t, store.Delete(testJob.PartsOf(1, "b")))
	if _, err := r.ReportParts(ctx, of(30), 0); !errors.Is(err, chunkstore.ErrFenced) {
		t.Errorf("behind the fence: %v", err)
	}
	if _, err := r.ReadParts(ctx, 1); !errors.Is(err, chunkstore.ErrFenced) {
		t.Errorf("read behind the fence: %v", err)
	}
}
