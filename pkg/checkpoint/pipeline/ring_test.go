package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// saveParts lets every node save a part, whose size depends on its index, and returns the commit.
func (x *team) saveParts(step int) manifest.Head {
	x.t.Helper()
	for i, m := range x.with.Members {
		x.save(m.Node, step,
			map[string]string{"shard_" + m.Node: strings.Repeat(fmt.Sprint(step%10), 100*(i+1))})
	}
	return next[replicator.Committed](x.t, x.reports[x.with.Members[0].Node]).Head
}

// stored are the bytes of what a node holds.
func (x *team) stored(node string) (n int64) {
	x.t.Helper()
	s := x.peers.Stores[node]
	for _, h := range s.Held() {
		m, err := s.Manifest(h)
		must(x.t, err)
		n += m.Bytes()
	}
	return n
}

// Each node has its own part and that of the node before it, for parts of any size. No node
// receives all bytes. Any one node may be lost, and with three copies any two.
func TestPartsAreSpreadInARing(t *testing.T) {
	for _, copies := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			names := []string{"a", "b", "c", "d"}
			x := newTeamOf(t, copies, true, names...)
			defer x.close()
			head := x.saveParts(10)
			if head.Copies != copies || len(head.Parts) != 4 || len(head.Holders) != 4 {
				t.Errorf("head: %+v", head)
			}
			for i, n := range names {
				var want int64
				for k := range copies {
					want += int64(100 * ((i-k+4)%4 + 1))
				}
				if got := x.stored(n); got != want {
					t.Errorf("%d copies: %s has %d bytes, want %d", copies, n, got, want)
				}
			}
			for i := range names {
				lost := []string{names[i]}
				if copies == 3 {
					lost = append(lost, names[(i+1)%4])
				}
				if got := x.whole(head, lost...); len(got) != 4 {
					t.Errorf("without %v: %d files", lost, len(got))
				}
			}
			for step := 20; step <= 40; step += 10 { // a commit outlives newer parts
				x.saveParts(step)
				for _, n := range names {
					must(t, x.replicators[n].Tidy(t.Context()))
				}
			}
			time.Sleep(time.Second) // the oldest record is removed after the commit
			head, committed, err := x.replicators["a"].Record.Read(t.Context())
			must(t, err)
			for _, h := range committed {
				if got := x.whole(h, "b"); len(got) != 4 || len(committed) != 3 || head.Number != 4 {
					t.Errorf("checkpoint %d without b: %d files", h.Number, len(got))
				}
			}
		})
	}
}

// Each node can say which parts of a commit it has, for agents that make a lost job again.
func TestCapturesInPartsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c"}
		x := newTeam(t, true, names...)
		defer x.close()
		head := x.saveParts(10)
		var copies []manifest.Copy
		for i, n := range names {
			all := x.replicators[n].Captures(1)
			if len(all) != 1 || all[0].Head.Manifest != head.Manifest || len(all[0].Head.Parts) != 3 {
				t.Errorf("%s: %+v", n, all)
				continue
			}
			for j, p := range head.Parts {
				if has := slices.Contains(all[0].Has, p.Manifest); has != (j == i || j == (i+2)%3) {
					t.Errorf("%s has part %d: %v", n, j, has)
				}
			}
			all[0].Node = n
			copies = append(copies, all[0])
		}
		for left := range len(copies) {
			got, ok := copies[0].Head.Together(copies[:left+1])
			if ok != (left > 0) || left == 2 && (got.Copies != 2 || len(got.Holders) != 3 || len(got.Parts) != 3) {
				t.Errorf("%d nodes: %v, %+v", left+1, ok, got)
			}
		}
	})
}

// No chunk of a part is sent before its manifest was offered: the parts of two nodes have the same
// generation and sequence, and a node takes chunks of one draft for each of these.
func TestAPartIsOfferedBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		first := map[string]string{} // by node: what it was asked first
		x.peers.Hook = func(op, node string) error {
			if first[node] == "" && (op == "offer" || op == "write") {
				first[node] = op
			}
			return nil
		}
		x.saveParts(10)
		x.peers.Hook = nil
		for _, n := range []string{"a", "b", "c"} {
			if first[n] != "offer" {
				t.Errorf("%s was asked to %s first", n, first[n])
			}
		}
	})
}

// Whichever node lacks its copy, or loses it, rank 0's node and one other have all of the save:
// nothing is committed with fewer copies than possible.
func TestAPartWithTooFewCopies(t *testing.T) {
	for what, fail := range map[string]func(x *team, op, node string) error{
		"no copy is taken": func(_ *team, op, node string) error {
			return fails(op == "offer" && node == "c")
		},
		"an older version keeps no parts": func(_ *team, op, node string) error {
			return fails(op == "hold" && node == "b")
		},
		"a holder is replaced meanwhile": func(x *team, op, node string) error {
			if op == "hold" && node == "c" {
				x.peers.Hook = nil
				x.join(x.t, "c", "2")
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTeam(t, true, "a", "b", "c")
				defer x.close()
				x.peers.Hook = func(op, node string) error { return fail(x, op, node) }
				head := x.saveParts(10)
				x.peers.Hook = nil
				if head.Parts != nil || head.Copies != 2 || !head.HeldBy("a") ||
					!x.peers.Stores["a"].Has(head.Manifest) {
					t.Errorf("head: %+v", head)
				}
			})
		})
	}
}

func fails(yes bool) error {
	if yes {
		return errors.New("no")
	}
	return nil
}

// When the workers of all nodes end, the newest checkpoint is on two nodes whole: the next world may
// have one node only.
func TestTheLastCheckpointIsBroughtTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		head := x.saveParts(10)
		if x.peers.Stores["a"].Has(head.Manifest) {
			t.Error("a has all of it while workers run")
		}
		for _, l := range x.lines {
			l.Finish()
		}
		for _, l := range x.lines {
			<-l.Done()
		}
		whole := 0
		for _, s := range x.peers.Stores {
			if s.Has(head.Manifest) {
				whole++
			}
		}
		if whole != 2 || !x.peers.Stores["a"].Has(head.Manifest) {
			t.Errorf("%d nodes have all of it", whole)
		}
		if got := x.whole(head, "b", "c"); len(got) != 3 {
			t.Errorf("with a alone: %d files", len(got))
		}
	})
}

// What the disks of any two of three nodes bring is every part, also before they heard of the commit.
func TestPartsAreBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		head := x.saveParts(10)
		for _, heard := range []bool{false, true} {
			for _, lost := range []string{"b", "c"} {
				there := map[manifest.Hash]bool{}
				for n, d := range x.disks {
					if n == lost {
						continue
					}
					found, err := readonly.FindNewest(t.Context(), readonly.New(d))
					must(t, err)
					if found == nil || found.Head.Manifest != head.Manifest || found.Head.Number != head.Number {
						t.Fatalf("%s, heard of it %v: %+v", n, heard, found)
					}
					for _, p := range found.Has {
						there[p] = true
					}
				}
				if len(there) != 3 {
					t.Errorf("without %s, heard of it %v: %d parts", lost, heard, len(there))
				}
			}
			for _, n := range []string{"a", "b", "c"} {
				must(t, x.replicators[n].Tidy(t.Context()))
			}
		}
	})
}

// Parts of a save that a newer commit overtook go from all disks, and so does what was kept for a
// commit that never came.
func TestPartsThatAreNeverCommittedGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		x.save("b", 10, map[string]string{"shard_b": "alone"})
		time.Sleep(3 * time.Second)
		for step := 20; step <= 60; step += 10 {
			x.saveParts(step)
		}
		time.Sleep(10 * time.Second)
		for _, n := range []string{"a", "b", "c"} {
			must(t, x.replicators[n].Tidy(t.Context()))
			if held := len(x.peers.Stores[n].Held()); held != 6 {
				t.Errorf("%s holds %d manifests, not two parts of each of 3 checkpoints", n, held)
			}
		}
	})
}

// A node saves, and the others do not: its newest parts stay, on its disk and on that of the next one.
func TestPartsWithoutOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		for step := 10; step <= 300; step += 10 {
			x.save("b", step, map[string]string{"shard_b": fmt.Sprint(step)})
			time.Sleep(2 * time.Second)
		}
		for _, n := range []string{"b", "c"} {
			must(t, x.replicators[n].Tidy(t.Context()))
			if held := len(x.peers.Stores[n].Held()); held != 8 {
				t.Errorf("%s holds %d parts", n, held)
			}
		}
	})
}

// A store that fails while a node looks for holders says nothing of what they have: the checkpoint is not
// given up for that, at whichever read it fails.
func TestAStoreThatFailsInAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTeam(t, true, "a", "b", "c")
		defer x.close()
		h := x.saveParts(10)
		for failing := range 12 {
			client, reads := x.etcd.Client(fmt.Sprint("new", failing)), 0
			client.Fates(func(op memory.Op) memory.Fate {
				reads++
				return memory.Fate{Lost: reads == failing}
			})
			k := &replicator.Replicator{Store: checkpointtest.OpenStore(t, memfs.New()),
				Peers:  &checkpointtest.Peers{Hook: func(string, string) error { return chunkstore.ErrNotHeld }},
				Record: recordOn(client, "new"), Self: "new", Report: func(replicator.Event) {}}
			ctx, done := context.WithTimeout(t.Context(), time.Minute)
			_, _, err := k.Prepare(ctx, replicator.Resume{Generation: 2, Number: h.Number, Manifest: h.Manifest},
				capture.Dir{FS: memfs.New()})
			done()
			if failed := failing > 0 && reads >= failing; replicator.CannotBeHad(err) == failed {
				t.Errorf("the read %d of %d fails: %v", failing, reads, err)
			}
		}
	})
}
