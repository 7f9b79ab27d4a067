package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// zeroTeam is four nodes with a worker each that saved in the form of DeepSpeed's ZeRO-1, and the
// checkpoint.
func zeroTeam(t *testing.T) (*team, manifest.Head) {
	x := &team{cluster: newCluster(t, "a", "b", "c", "d"), t: t, copies: 2,
		replicators: map[string]*replicator.Replicator{}, lines: map[string]*Pipeline{},
		reports: map[string]reports{}}
	x.with.All = true
	for _, n := range x.nodes {
		x.with.Members = append(x.with.Members, n.Ref)
	}
	x.openAll(1)
	for i, n := range x.nodes {
		files := map[string]string{strings.TrimPrefix(shardOf(i), "step-10/"): fmt.Sprint("optimizer of ", i)}
		if i == 0 {
			files["mp_rank_00_model_states.pt"] = "model"
		}
		x.save(n.Node, 10, files)
	}
	head := next[replicator.Committed](t, x.reports["a"]).Head
	if len(head.Parts) != 4 {
		t.Fatalf("head: %+v", head)
	}
	return x, head
}

// openAll starts the pipeline of each node in a generation of four workers.
func (x *team) openAll(g schema.Generation) {
	for _, n := range x.with.Members {
		stamp := stampOf(g)
		stamp.WorldSize = 4
		x.open(n.Node, stamp, nil)
	}
}

// shardOf is the file that a rank alone reads.
func shardOf(rank int) string {
	return fmt.Sprintf("step-10/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", rank)
}

// ownOf is the resume of a node that loads its own parts, in a world like that of zeroTeam.
func ownOf(h manifest.Head, rank int) replicator.Resume {
	return replicator.Resume{Generation: 2, Number: h.Number, Manifest: h.Manifest,
		Own: &parts.Reader{Rank: rank, Nodes: 4, Workers: 4}}
}

// replace has the node at a place be another machine, with empty disks.
func (x *team) replace(i int, node string) {
	x.gone(x.t, x.with.Members[i].Node)
	x.disks[node], x.dirs[node] = memfs.New(), memfs.New()
	x.peers.Stores[node] = checkpointtest.OpenStore(x.t, x.disks[node])
	x.join(x.t, node, "1")
	x.with.Members[i] = x.nodes[len(x.nodes)-1].Ref
	x.replicators[node] = x.replicator(node, x.etcd.Client(node), func(replicator.Event) {})
}

// prepareOwn has each node prepare for generation 2 with its own parts, and checks what it has then.
func (x *team) prepareOwn(head manifest.Head) {
	x.t.Helper()
	x.propose(x.t, 2)
	for i, m := range x.with.Members {
		x.replicators[m.Node].Nodes(x.nodes)
		_, view, err := x.replicators[m.Node].Prepare(x.t.Context(), ownOf(head, i),
			capture.Dir{FS: x.dirs[m.Node]})
		must(x.t, err)
		got := memfs.Contents(x.t, x.dirs[m.Node])
		var names []string
		for name := range got {
			names = append(names, name)
		}
		slices.Sort(names)
		want := []string{shardOf(i), "step-10/mp_rank_00_model_states.pt"}
		if d := cmp.Diff(want, names); d != "" ||
			!strings.HasSuffix(got[shardOf(i)], fmt.Sprint("optimizer of ", i)) {
			x.t.Errorf("node %s: %s %q", m.Node, d, got)
		}
		if len(view.Files) != 2 || x.peers.Stores[m.Node].Has(head.Manifest) {
			x.t.Errorf("node %s has all of it: %+v", m.Node, view)
		}
	}
}

// A node is lost with its disk. The one in its place fetches the part of its rank and what all ranks
// read, and no node has more in its directory. Its part counts if another node is lost, though the
// record does not know of it.
func TestANodeLoadsItsOwnParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, head := zeroTeam(t)
		x.close()
		x.replace(2, "e")
		var last replicator.Moving
		x.replicators["e"].Report = func(e replicator.Event) { last = e.(replicator.Moving) }
		x.prepareOwn(head)
		if got, want := x.stored("e"), int64(2*len("optimizer of 2")+len("model")); got != want {
			t.Errorf("the new node fetched %d bytes, not %d", got, want)
		}
		if last.What != "fetch" || last.Done != last.Total || last.Total != x.stored("e") {
			t.Errorf("progress ended with %+v", last)
		}
		found, err := readonly.FindNewest(t.Context(), readonly.New(x.disks["e"]))
		must(t, err)
		if found == nil || found.Head.Number != head.Number || len(found.Has) != 2 {
			t.Errorf("a job whose store is lost finds %+v on the new node", found)
		}
		for _, n := range []string{"a", "b", "d", "e"} {
			must(t, x.replicators[n].Tidy(t.Context()))
		}
		x.prepareOwn(head) // what is here is not asked for again
		lose := func(nodes ...string) {
			for _, lost := range nodes {
				if got := x.whole(head, lost); len(got) != 5 {
					t.Errorf("without %s: %q", lost, got)
				}
			}
		}
		lose("a", "d", "e")
		// The one that is lost had the second copy of the part of b, too. Rank 0's node makes copies of
		// all again, while workers run.
		must(t, x.replicators["a"].Complete(t.Context(), 2, head, 1))
		must(t, x.replicators["a"].Tidy(t.Context()))
		lose("a", "b", "d", "e")
	})
}

// A node that cannot do with its parts has all of the checkpoint, and says why.
func TestANodeThatLoadsAll(t *testing.T) {
	for name, c := range map[string]struct {
		change func(x *team, r *replicator.Resume, head manifest.Head)
		says   string
	}{
		"another size": {func(_ *team, r *replicator.Resume, _ manifest.Head) {
			r.Own.Nodes, r.Own.Workers = 2, 2
		},
			"--load=own: this node loads all of the checkpoint: 4 workers in 4 parts saved it, and 2 " +
				"workers on 2 nodes begin from it"},
		"the record has no parts": {func(x *team, _ *replicator.Resume, head manifest.Head) {
			must(x.t, x.replicators["a"].Complete(x.t.Context(), 1, head, 0))
			must(x.t, x.replicators["a"].Tidy(x.t.Context()))
			head.Parts = nil
			x.write(x.t, store.Put(testJob.Checkpoint(uint64(head.Number)), schema.Encode(head)))
		}, "--load=own: this node loads all of the checkpoint: it was not committed in parts"},
		"no node has a part, and one node has all": {func(x *team, _ *replicator.Resume, head manifest.Head) {
			must(x.t, x.replicators["a"].Complete(x.t.Context(), 1, head, 0))
			must(x.t, x.replicators["a"].Tidy(x.t.Context()))
			x.gone(x.t, "c")
			x.gone(x.t, "d")
		}, "--load=own: this node loads all of the checkpoint: no node that had a part of it at the commit " +
			"answers for that part"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, head := zeroTeam(t)
				x.close()
				from, r, to := ownOf(head, 2), newReports(), memfs.New()
				c.change(x, &from, head)
				k := x.replicator("e", x.etcd.Client("e"), r.add)
				k.Store = checkpointtest.OpenStore(t, memfs.New())
				_, m, err := k.Prepare(t.Context(), from, capture.Dir{FS: to})
				must(t, err)
				if got := memfs.Contents(t, to); len(got) != 5 || len(m.Files) != 5 {
					t.Errorf("%q", got)
				}
				says := ""
				for len(r.c) > 0 {
					if e, ok := (<-r.c).(replicator.LoadsAll); ok {
						says = e.String()
					}
				}
				if says != c.says {
					t.Errorf("it says %q", says)
				}
			})
		})
	}
}

// A chunk of the own part has gone bad on this disk: it comes from the next node in the ring.
func TestAnOwnPartIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, head := zeroTeam(t)
		x.close()
		checkpointtest.Flip(t, x.disks["c"], manifest.Sum([]byte("optimizer of 2")))
		x.peers.Stores["c"] = checkpointtest.OpenStore(t, x.disks["c"])
		x.replicators["c"].Store, x.dirs["c"] = x.peers.Stores["c"], memfs.New()
		x.prepareOwn(head)
		for h := range x.peers.Stores["c"].Positions() {
			must(t, x.peers.Stores["c"].Verify(t.Context(), h))
		}
	})
}

// A world of nodes with their own parts ends before it saved anything: the next one may be smaller,
// so that two nodes have all of the checkpoint.
func TestOwnPartsAreBroughtTogether(t *testing.T) {
	for _, all := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			x, head := zeroTeam(t)
			x.close()
			x.prepareOwn(head)
			x.with.All = all
			x.openAll(2)
			for _, l := range x.lines {
				l.Finish()
			}
			for _, l := range x.lines {
				<-l.Done()
			}
			if got := x.whole(head, "b", "c", "d"); len(got) != 5 {
				t.Errorf("with a alone: %q", got)
			}
			whole := slices.DeleteFunc([]string{"a", "b", "c", "d"},
				func(n string) bool { return !x.peers.Stores[n].Has(head.Manifest) })
			if len(whole) != 2 {
				t.Errorf("%v have all of it", whole)
			}
		})
	}
}

// Every i-th operation of bringing the own parts fails, or is the last one, on a node that has none of
// them: the next Prepare mends it.
func TestEveryFaultOfOwnParts(t *testing.T) {
	for _, kind := range []string{"error", "crash"} {
		t.Run(kind, func(t *testing.T) {
			eachOperation(t, 1, 1, func(t *testing.T, at int64) bool {
				x, head := zeroTeam(t)
				x.close()
				r := restored{x, ownOf(head, 2), x.whole(head), x.whole(head), "c"}
				for _, rank := range []int{0, 1, 3} {
					delete(r.want, shardOf(rank))
				}
				return r.withFault(t, &checkpointtest.Fault{At: at, Kind: kind, Node: "e"})
			})
		})
	}
}
