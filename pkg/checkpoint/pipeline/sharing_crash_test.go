package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// together is what every fault is tried in: three nodes save their parts of two steps. The fault
// may be of any disk, of the network, or of the store of the job, of any node.
func together(t *testing.T, f *checkpointtest.Fault) (acked []replicator.Committed, x *team) {
	x = newTeam(t, true, "a", "b", "c")
	var n atomic.Int64
	for node, d := range x.disks {
		d.Machine.Hook = func(op, name string) error {
			if op == "lstat" || op == "space" {
				return nil // they change nothing, and their failure is that of the next operation
			}
			return f.Step(node)
		}
		x.dirs[node].Machine.Hook = func(op, name string) error {
			if op == "open" || op == "read" || op == "readdir" {
				return f.Step(node)
			}
			return nil
		}
		x.replicators[node].Record.Store.(*memory.Client).Fates(func(memory.Op) memory.Fate {
			if f.Step(node) == nil {
				return memory.Fate{}
			}
			return memory.Fate{Lost: n.Add(1)%2 == 0, Mute: true} // applied without an answer, or not at all
		})
	}
	x.peers.Hook = func(op, node string) error { return f.Step(node) }
	for step := 10; step <= 20; step += 10 {
		for i, node := range []string{"c", "a", "b"} {
			hook := x.dirs[node].Set(nil, 1<<40) // the worker's own writes
			x.save(node, step, map[string]string{fmt.Sprint("shard_", i): fmt.Sprint(node, " at ", step),
				"all": fmt.Sprint(step)})
			x.dirs[node].Set(hook, 1<<40)
		}
		timer := time.NewTimer(2 * time.Minute)
		for waits := true; waits; {
			select {
			case e := <-x.reports["a"].c:
				if e, ok := e.(replicator.Committed); ok {
					acked, waits = append(acked, e), false
				}
			case <-timer.C:
				waits = false
			}
		}
		timer.Stop()
	}
	x.close()
	return acked, x
}

// Every i-th operation of capture, report, exchange and commit fails on any node, or is the last of
// one node: what was acknowledged survives the loss of any machine, whole and of one step.
func TestEveryFaultOfParts(t *testing.T) {
	stride := int64(31) // with COUNT: 1
	if os.Getenv("COUNT") != "" {
		stride = 1
	}
	for i, c := range []struct{ kind, node string }{{"error", "a"}, {"crash", "a"}, {"error", "b"},
		{"crash", "b"}, {"error", "c"}, {"crash", "c"}} {
		t.Run(c.kind+" "+c.node, func(t *testing.T) {
			eachOperation(t, 1+int64(5*i)%stride, stride, func(t *testing.T, at int64) bool {
				f := &checkpointtest.Fault{At: at, Kind: c.kind, Node: c.node}
				acked, x := together(t, f)
				met := f.Hit.Load()
				if (c.kind == "error" || !met) && len(acked) != 2 {
					t.Errorf("operation %d: %d commits of 2", at, len(acked))
				}
				wholeAfterAnyLoss(t, x, acked, at)
				return met
			})
		})
	}
}

func wholeAfterAnyLoss(t *testing.T, x *team, acked []replicator.Committed, seed int64) {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	for node := range x.disks {
		x.disks[node].Machine.Hook, x.dirs[node].Machine.Hook = nil, nil
	}
	x.peers.Hook = nil
	head, _, err := recordOn(x.etcd.Client("test"), "test").Read(t.Context())
	must(t, err)
	if len(acked) > 0 && head.Number < acked[len(acked)-1].Head.Number {
		t.Errorf("checkpoint %d was acknowledged, %d is the head", acked[len(acked)-1].Head.Number, head.Number)
	}
	for _, kept := range []func() bool{names(false), names(true), func() bool { return rng.IntN(2) == 0 }} {
		stores := map[string]*chunkstore.Store{}
		for node, d := range x.disks {
			stores[node] = reopen(t, d, kept)
			for _, h := range stores[node].Held() {
				if err := stores[node].Verify(t.Context(), h); err != nil {
					t.Errorf("node %s has half a checkpoint: %v", node, err)
				}
			}
		}
		if head.Number == 0 {
			continue
		}
		for lost := range x.disks {
			peers := &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{}}
			for node, s := range stores {
				if node != lost {
					peers.Stores[node] = s
				}
			}
			k := &replicator.Replicator{Store: checkpointtest.OpenStore(t, memfs.New()), Peers: peers,
				Record: recordOn(x.etcd.Client("d"), "d"), Self: "d", Report: func(replicator.Event) {}}
			to := memfs.New()
			if _, _,
				err := k.Prepare(t.Context(), replicator.Resume{Generation: 2, Number: head.Number,
				Manifest: head.Manifest}, capture.Dir{FS: to}); err != nil {
				t.Errorf("without %s: %v", lost, err)
				continue
			}
			got := memfs.Contents(t, to)
			for i, node := range []string{"c", "a", "b"} {
				name := fmt.Sprintf("step-%d/shard_%d", *head.Step, i)
				want := fmt.Sprint(node, " at ", *head.Step)
				if !strings.HasSuffix(got[name], want) || len(got) != 4 {
					t.Errorf("without %s: %s is not %q: %q", lost, name, want, got)
				}
			}
		}
	}
}

// Every i-th operation of bringing the parts of other nodes together fails, or is the last one, on a
// node that has none of them, while one of their nodes is gone: the next Prepare mends it.
func TestEveryFaultOfRestoredParts(t *testing.T) {
	for _, kind := range []string{"error", "crash"} {
		t.Run(kind, func(t *testing.T) {
			eachOperation(t, 1, 1, func(t *testing.T, at int64) bool {
				return restoredParts(t, &checkpointtest.Fault{At: at, Kind: kind, Node: "d"})
			})
		})
	}
}

// restoredParts reports whether the fault was met.
func restoredParts(t *testing.T, f *checkpointtest.Fault) bool {
	x := newTeam(t, true, "a", "b", "c")
	head := x.saveParts(10)
	want := x.whole(head)
	x.close()
	if len(head.Parts) != 3 {
		t.Fatalf("head: %+v", head)
	}
	resume := replicator.Resume{Generation: 2, Number: head.Number, Manifest: head.Manifest}
	return restored{x, resume, want, want, "b"}.withFault(t, f)
}

// restored is a checkpoint that a new node brings onto its disk.
type restored struct {
	*team
	resume replicator.Resume
	want   map[string]string
	other  map[string]string // what it may also have after a fault
	away   string            // a node that does not answer
}

// withFault reports whether the fault was met.
func (r restored) withFault(t *testing.T, f *checkpointtest.Fault) bool {
	disk, to, client := memfs.New(), memfs.New(), r.etcd.Client(f.Node)
	peers := &checkpointtest.Peers{Stores: maps.Clone(r.peers.Stores)}
	delete(peers.Stores, r.away)
	k := &replicator.Replicator{Store: checkpointtest.OpenStore(t, disk), Peers: peers,
		Record: recordOn(client, f.Node), Self: f.Node, Report: func(replicator.Event) {}}
	hook := func(string, string) error { return f.Step(f.Node) }
	disk.Machine.Hook, to.Machine.Hook, peers.Hook = hook, hook, hook
	client.Fates(func(memory.Op) memory.Fate { return memory.Fate{Lost: f.Step(f.Node) != nil} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := k.Prepare(ctx, r.resume, capture.Dir{FS: to})
	met := f.Hit.Load()
	if err != nil && !met || err == nil && met && f.Kind == "crash" {
		t.Errorf("met %v: %v", met, err)
	}
	peers.Hook = nil
	for _, kept := range []bool{false, true} {
		after := to.Crash(names(kept))
		got := memfs.Contents(t, after)
		if d := cmp.Diff(r.want, got); err == nil && d != "" && !(met && maps.Equal(got, r.other)) {
			t.Errorf("done, and then lost: %s", d)
		}
		k.Record, k.Store = recordOn(r.etcd.Client(f.Node+" again"), f.Node), reopen(t, disk, names(kept))
		if _, _, err := k.Prepare(t.Context(), r.resume, capture.Dir{FS: after}); err != nil {
			t.Errorf("then: %v", err)
		}
		if d := cmp.Diff(r.want, memfs.Contents(t, after)); d != "" {
			t.Error(d)
		}
	}
	return met
}
