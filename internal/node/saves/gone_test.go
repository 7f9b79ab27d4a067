package saves

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A directory that is removed or replaced is noticed within some seconds, and no other is.
func TestStoreIsRemoved(t *testing.T) {
	for _, again := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan bool, 1)
			go func() { gone <- watchStore(ctx, dir) }()
			time.Sleep(time.Minute)
			if synctest.Wait(); len(gone) > 0 {
				t.Fatal("a store that is there counts as removed")
			}
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Second)
			cancel()
			if !<-gone {
				t.Error("it was not noticed within ten seconds")
			}
		})
	}
}

// Of a store that is there until the agent ends, nothing is said.
func TestStoreStays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if watchStore(ctx, t.TempDir()) {
		t.Error("it counts as removed")
	}
}

// A node whose store was removed takes nothing more. It leaves when other nodes that are here have all
// of the newest checkpoint.
func TestLeaveWithoutStore(t *testing.T) {
	const job, uid = schema.Job("x"), schema.UID("u1")
	whole := checkpoint.Head{Generation: 1, Manifest: checkpoint.Hash{1}}
	parts := func(holders ...[]string) checkpoint.Head {
		h := whole
		for i, names := range holders {
			h.Parts = append(h.Parts, checkpoint.HeldPart{Manifest: checkpoint.Hash{2, byte(i)}, Holders: names})
		}
		return h
	}
	has := func(nodes ...string) []string { return nodes }
	for _, c := range []struct {
		name string
		head checkpoint.Head // without a manifest: there is none
		all  []string        // the nodes whose inventory has it
		want bool
	}{
		{"no checkpoint", checkpoint.Head{}, nil, false},
		{"only this node had it", whole, has("a"), false},
		{"another node has it", whole, has("b"), true},
		{"a node that is away has it", whole, has("away"), false},
		{"another node has all parts", parts(has("a"), has("a")), has("b"), true},
		{"others have each part", parts(has("a", "b"), has("c", "a")), nil, true},
		{"only this node had one part", parts(has("a", "b"), has("a")), nil, false},
		{"a node that is away has a part", parts(has("a", "b"), has("away")), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := memory.New().Client("a")
				write := func(w ...store.Write) {
					if _, err := client.Txn(t.Context(), store.Txn{Then: w}); err != nil {
						t.Fatal(err)
					}
				}
				s := New(Config{Notice: func(string) {}})
				write(store.Put(job.Fence(), []byte(schema.FenceValue(uid, 1))))
				for _, name := range []string{"a", "b", "c"} {
					n := membership.Node{Ref: membership.Ref{Node: name, Incarnation: "1"}, Machine: name}
					write(store.Put(job.Node(name), schema.Encode(n)))
					s.nodes = append(s.nodes, n)
				}
				k := &replicator.Replicator{Store: checkpointtest.OpenStore(t, memfs.New()), Self: "a",
					Record: &checkpoint.Record{Store: client, Job: job, UID: uid, Self: "a"}}
				if c.head.Generation > 0 {
					if _, err := k.Record.Commit(t.Context(), c.head, checkpoint.Head{}, s.nodes[:1]); err != nil {
						t.Fatal(err)
					}
				}
				for _, node := range c.all {
					if err := k.Record.Hold(t.Context(), node, []checkpoint.Number{1}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.leaveWithoutStore(ctx, "store", k)
				}()
				time.Sleep(storeEvery)
				synctest.Wait()
				if len(s.Gone()) > 0 {
					t.Error("it leaves before the others could report that theirs were removed too")
				}
				if err := k.Store.Raise(1); !errors.Is(err, dirfs.ErrQuarantined) {
					t.Errorf("it writes to the old directory: %v", err)
				}
				time.Sleep(time.Minute)
				cancel()
				<-done
				if left := len(s.Gone()) > 0; left != c.want {
					t.Errorf("it leaves: %v", left)
				}
			})
		})
	}
}
