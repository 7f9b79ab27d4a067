package saves

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// storeIn makes the directories of a store, and returns them.
func storeIn(t *testing.T) []string {
	t.Helper()
	dirs := chunkstore.Dirs(filepath.Join(t.TempDir(), "jobs", "store"))
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A store is gone if it, or a part of it, was removed or replaced, and not if its file system fails.
func TestWhichStoreIsGone(t *testing.T) {
	for _, c := range []struct {
		name       string
		do         func(t *testing.T, dirs []string)
		gone, back bool
	}{
		{"nothing happens", func(*testing.T, []string) {}, false, true},
		{"removed", func(t *testing.T, d []string) { rename(t, d[0], d[0]+"-away") }, true, false},
		{"a directory above it is removed", func(t *testing.T, d []string) {
			rename(t, filepath.Dir(d[0]), filepath.Dir(d[0])+"-away")
		}, true, false},
		{"a directory in it is removed", func(t *testing.T, d []string) { rename(t, d[1], d[0]+"-away") },
			true, false},
		{"replaced", func(t *testing.T, d []string) {
			rename(t, d[0], d[0]+"-away")
			for _, dir := range d {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
		}, true, false},
		{"replaced by a file", func(t *testing.T, d []string) {
			rename(t, d[0], d[0]+"-away")
			if err := os.WriteFile(d[0], nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, true, false},
		{"moved away and back", func(t *testing.T, d []string) {
			rename(t, d[0], d[0]+"-away")
			rename(t, d[0]+"-away", d[0])
		}, false, true},
		{"moved, with a link in its place", func(t *testing.T, d []string) {
			rename(t, d[0], d[0]+"-away")
			if err := os.Symlink(d[0]+"-away", d[0]); err != nil {
				t.Fatal(err)
			}
		}, false, true},
		{"a name that the file system refuses", func(t *testing.T, d []string) {
			rename(t, d[0], d[0]+"-away")
			if err := os.Symlink(d[0], d[0]); err != nil { // a link to itself: ELOOP
				t.Fatal(err)
			}
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dirs := storeIn(t)
			was, err := look(os.Stat, dirs)
			if err != nil {
				t.Fatal(err)
			}
			c.do(t, dirs)
			if gone, back := was.gone(), was.back(); gone != c.gone || back != c.back {
				t.Errorf("gone: %v, as before: %v", gone, back)
			}
		})
	}
}

const (
	goneJob schema.Job = "x"
	goneUID schema.UID = "u1"
)

// watched is node a of three nodes, whose store is watched.
type watched struct {
	*Saves
	dirs []string
	k    *replicator.Replicator

	mu   sync.Mutex
	said []string
}

// newWatched commits head, if it has a generation.
func newWatched(t *testing.T, dirs []string, head checkpoint.Head) *watched {
	t.Helper()
	client := memory.New().Client("a")
	write := func(w ...store.Write) {
		if _, err := client.Txn(t.Context(), store.Txn{Then: w}); err != nil {
			t.Fatal(err)
		}
	}
	w := &watched{dirs: dirs}
	w.Saves = New(Config{Notice: func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, text)
	}})
	write(store.Put(goneJob.Fence(), []byte(schema.FenceValue(goneUID, 1))))
	for _, name := range []string{"a", "b", "c"} {
		n := membership.Node{Ref: membership.Ref{Node: name, Incarnation: "1"}, Machine: name}
		write(store.Put(goneJob.Node(name), schema.Encode(n)))
		w.nodes = append(w.nodes, n)
	}
	w.k = &replicator.Replicator{Store: checkpointtest.OpenStore(t, memfs.New()), Self: "a",
		Record: &checkpoint.Record{Store: client, Job: goneJob, UID: goneUID, Self: "a"}}
	w.chunks, w.replicator = w.k.Store, w.k
	if head.Generation > 0 {
		if _, err := w.k.Record.Commit(t.Context(), head, checkpoint.Head{}, w.nodes[:1]); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// run watches the store until the test ends.
func (w *watched) run(t *testing.T) {
	was, err := look(os.Stat, w.dirs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watchStore(ctx, was, w.k)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// heard fails the test unless the last notice has that text, and is the n-th one.
func (w *watched) heard(t *testing.T, n int, text string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) != n || n > 0 && !strings.Contains(w.said[n-1], text) {
		t.Errorf("it says %q", w.said)
	}
}

// A node whose store was removed takes nothing more. It leaves when other nodes that are here have all
// of the newest checkpoint.
func TestLeaveWithoutStore(t *testing.T) {
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
		gone []string        // the nodes whose store is gone
		want bool
	}{
		{"no checkpoint", checkpoint.Head{}, nil, nil, false},
		{"only this node had it", whole, has("a"), nil, false},
		{"another node has it", whole, has("b"), nil, true},
		{"a node that is away has it", whole, has("away"), nil, false},
		{"another node has all parts", parts(has("a"), has("a")), has("b"), nil, true},
		{"others have each part", parts(has("a", "b"), has("c", "a")), nil, nil, true},
		{"only this node had one part", parts(has("a", "b"), has("a")), nil, nil, false},
		{"a node that is away has a part", parts(has("a", "b"), has("away")), nil, nil, false},
		{"the others' stores are gone too", parts(has("a", "b"), has("c", "a")), nil, has("b", "c"), false},
		{"one store with a part is gone too", parts(has("a", "b"), has("c", "a")), nil, has("c"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dirs := storeIn(t)
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t, dirs, c.head)
				for _, node := range has("a", "b", "c", "away") {
					var have []checkpoint.Number
					if slices.Contains(c.all, node) {
						have = []checkpoint.Number{1}
					}
					if err := w.k.Record.PublishInventory(t.Context(), node, have); err != nil {
						t.Fatal(err)
					}
				}
				for _, node := range c.gone {
					if err := w.k.Record.Withdraw(t.Context(), node); err != nil {
						t.Fatal(err)
					}
				}
				w.run(t)
				time.Sleep(time.Minute)
				w.heard(t, 0, "")
				rename(t, dirs[0], dirs[0]+"-away")
				time.Sleep(storeEvery)
				synctest.Wait()
				w.heard(t, 1, "was removed or replaced")
				if len(w.Gone()) > 0 {
					t.Error("it leaves before the others could tell that theirs were removed too")
				}
				if err := w.k.Store.Raise(1); !errors.Is(err, chunkstore.ErrRemoved) {
					t.Errorf("it writes to the old directory: %v", err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				w.heard(t, 1, "was removed or replaced")
				if left := len(w.Gone()) > 0; left != c.want {
					t.Errorf("it leaves: %v", left)
				}
			})
		})
	}
}

// A node that stayed without its store leaves when it cannot get ready for a generation.
func TestNotReadyWithoutStore(t *testing.T) {
	dirs := storeIn(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, dirs, checkpoint.Head{})
		w.node.Activity = quiet{}
		w.NotReady(errors.New("the disk is full"))
		if len(w.Gone()) > 0 {
			t.Error("it leaves, and its store is there")
		}
		w.run(t)
		rename(t, dirs[0], dirs[0]+"-away")
		time.Sleep(time.Minute)
		w.NotReady(w.k.Store.Raise(1))
		w.NotReady(w.k.Store.Raise(1))
		if len(w.Gone()) != 1 {
			t.Fatal("it stays")
		}
		if err := <-w.Gone(); !problem.Is(err, problem.StateDir) {
			t.Errorf("it leaves with %v", err)
		}
	})
}

// quiet is an Activity that reports nothing.
type quiet struct{}

func (quiet) Nothing()                           {}
func (quiet) Moving(string, int64, int64)        {}
func (quiet) Unreadable(_, _ int64) (first bool) { return true }
func (quiet) Blocked(string)                     {}

// A store that is moved away and back takes saves again.
func TestStoreIsBack(t *testing.T) {
	dirs := storeIn(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, dirs, checkpoint.Head{})
		w.run(t)
		for n := range 2 {
			rename(t, dirs[0], dirs[0]+"-away")
			time.Sleep(2 * storeEvery)
			synctest.Wait()
			w.heard(t, 2*n+1, "was removed or replaced")
			rename(t, dirs[0]+"-away", dirs[0])
			time.Sleep(2 * storeEvery)
			synctest.Wait()
			w.heard(t, 2*n+2, "is back")
			if err := w.k.Store.Raise(schema.Generation(n + 1)); err != nil {
				t.Errorf("it does not write: %v", err)
			}
		}
	})
}
