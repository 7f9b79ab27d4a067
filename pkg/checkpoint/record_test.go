package checkpoint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
)

const (
	recordJob schema.Job = "x"
	recordUID schema.UID = "u1"
)

func newRecord(s store.Store) *Record {
	return &Record{Store: s, Job: recordJob, UID: recordUID, Self: "a"}
}

// onEtcds runs f on a real etcd and on the one in memory.
func onEtcds(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Run("etcd", func(t *testing.T) { f(t, realStore(t)) })
	t.Run("memory", func(t *testing.T) { f(t, memory.New().Client("test")) })
}

func mustTxn(t testing.TB, s store.Store, w ...store.Write) int64 {
	t.Helper()
	r, err := s.Txn(t.Context(), store.Txn{Then: w})
	must(t, err)
	return r.Rev
}

func fence(t testing.TB, s store.Store, u schema.UID, g schema.Generation) {
	t.Helper()
	mustTxn(t, s, store.Put(recordJob.Fence(), []byte(schema.FenceValue(u, g))))
}

func register(t testing.TB, s store.Store, node string, life membership.Incarnation) membership.Node {
	t.Helper()
	n := membership.Node{Ref: membership.Ref{Node: node, Incarnation: life}, Machine: node}
	n.Rev = mustTxn(t, s, store.Put(recordJob.Node(node), schema.Encode(n)))
	return n
}

func TestCommit(t *testing.T) {
	onEtcds(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		r := newRecord(s)
		if _, _, err := r.Read(ctx); !errors.Is(err, ErrOtherJob) {
			t.Fatalf("a store without the job: %v", err)
		}
		fence(t, s, recordUID, 1)
		a, b := register(t, s, "a", "1"), register(t, s, "b", "1")
		both := []membership.Node{a, b}

		one, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{1}}, manifest.Head{},
			both)
		must(t, err)
		head, all, err := r.Read(ctx)
		must(t, err)
		if one.Number != 1 || one.Copies != 2 || one.Rev == 0 || head.Rev != one.Rev ||
			head.Manifest != one.Manifest ||
			len(all) != 1 {
			t.Fatalf("committed %+v, head %+v, all %v", one, head, all)
		}

		// C19: what is older than the head is not put over it.
		if _, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{9}}, manifest.Head{},
			both); !errors.Is(err, store.ErrMoved) || errors.Is(err, chunkstore.ErrFenced) {
			t.Errorf("with an old head: %v", err)
		}
		// The same life under a new lease holds on; another life does not.
		register(t, s, "b", "1")
		two, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{2}}, one, both)
		must(t, err)
		register(t, s, "b", "2")
		var gone *HolderGoneError
		if _, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{3}}, two,
			both); !errors.As(err, &gone) || gone.Node != "b" {
			t.Errorf("a holder of another life: %v", err)
		}
		mustTxn(t, s, store.Delete(recordJob.Node("b")))
		if _, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{3}}, two,
			both); !errors.As(err, &gone) {
			t.Errorf("a holder that is gone: %v", err)
		}
		// Our own registration needs no guard: a lost lease loses no save.
		mustTxn(t, s, store.Delete(recordJob.Node("a")))
		three, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{3}}, two, both[:1])
		must(t, err)

		// C2, C6: a newer proposal, and the generation of the bytes is the old one.
		fence(t, s, recordUID, 2)
		if _, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{4}}, three,
			both[:1]); !errors.Is(err, chunkstore.ErrFenced) {
			t.Errorf("older than the fence: %v", err)
		}
		// A job that was removed and made again is another one.
		fence(t, s, "u2", 1)
		if _, err := r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{4}}, three,
			both[:1]); !errors.Is(err, ErrOtherJob) || errors.Is(err, chunkstore.ErrFenced) {
			t.Errorf("another job: %v", err)
		}
		fence(t, s, recordUID, 2)
		head, all, err = r.Read(ctx)
		must(t, err)
		if head.Number != 3 || len(all) != 3 || all[0].Number != 1 || all[2].Rev != head.Rev {
			t.Errorf("head %+v of %v", head, all)
		}
	})
}

func TestRollbackAndDrop(t *testing.T) {
	onEtcds(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		r := newRecord(s)
		fence(t, s, recordUID, 1)
		var head manifest.Head
		for i := range 4 {
			var err error
			head, err = r.Commit(ctx, manifest.Head{Generation: 1, Manifest: manifest.Hash{byte(i + 1)}},
				head, nil)
			must(t, err)
		}
		_, all, err := r.Read(ctx)
		must(t, err)
		back, guards, writes := r.Rollback(head, all[1])
		if back.Number != 5 || back.Manifest != (manifest.Hash{2}) || back.Generation != 1 {
			t.Errorf("rolled back to %+v", back)
		}
		guards = append(guards, store.Unchanged(recordJob.Head(), head.Rev))

		// Removed meanwhile: its bytes may be gone.
		must(t, r.Drop(ctx, 1, head, all[:1]))
		if res, err := s.Txn(ctx, store.Txn{If: guards, Then: writes}); err != nil || !res.OK {
			t.Fatalf("rollback: %+v, %v", res, err)
		}
		if err := r.Drop(ctx, 1, head, all[1:2]); !errors.Is(err, store.ErrMoved) {
			t.Errorf("drop by a node that knows an older head: %v", err)
		}
		now, left, err := r.Read(ctx)
		must(t, err)
		if now.Number != 5 || len(left) != 4 {
			t.Fatalf("head %+v of %v", now, left)
		}
		gone, guards, writes := r.Rollback(now, left[1])
		must(t, r.Drop(ctx, 1, now, left[1:2]))
		if res, err := s.Txn(ctx, store.Txn{If: guards, Then: writes}); err != nil || res.OK {
			t.Errorf("rollback to the removed %+v: %+v, %v", gone, res, err)
		}
		fence(t, s, recordUID, 2)
		if err := r.Drop(ctx, 1, now, left[:1]); !errors.Is(err, store.ErrMoved) {
			t.Errorf("drop by an older generation: %v", err)
		}
	})
}

func TestDropOfMany(t *testing.T) {
	ctx := t.Context()
	s := memory.New().Client("test")
	r := newRecord(s)
	fence(t, s, recordUID, 1)
	var head manifest.Head
	for range 200 {
		var err error
		head, err = r.Commit(ctx, manifest.Head{Generation: 1}, head, nil)
		must(t, err)
	}
	_, all, err := r.Read(ctx)
	must(t, err)
	must(t, r.Drop(ctx, 1, head, Retention{Keep: 1}.Surplus(all, head)))
}

// A request whose response is lost takes effect exactly once.
func TestCommitWithoutAnswer(t *testing.T) {
	for name, fate := range map[string]memory.Fate{"applied": {Mute: true}, "lost": {Lost: true},
		"late": {Delay: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.New()
				s := c.Client("a")
				fence(t, s, recordUID, 1)
				left := 3
				s.Fates(func(op memory.Op) memory.Fate {
					if op.Kind == memory.Txn && left > 0 {
						left--
						return fate
					}
					return memory.Fate{}
				})
				r := newRecord(s)
				h, err := r.Commit(t.Context(), manifest.Head{Generation: 1, Manifest: manifest.Hash{1}},
					manifest.Head{}, nil)
				must(t, err)
				time.Sleep(time.Minute) // every late one has arrived
				head, all, err := r.Read(t.Context())
				must(t, err)
				if h.Number != 1 || head.Number != 1 || head.Rev != h.Rev || len(all) != 1 {
					t.Errorf("committed %+v, head %+v, all %v", h, head, all)
				}
			})
		})
	}
}

func TestSurplus(t *testing.T) {
	var all []manifest.Head
	for i := range 6 {
		all = append(all, manifest.Head{Number: manifest.Number(i + 1), Manifest: manifest.Hash{byte(i + 1)}})
	}
	all[5].Manifest = manifest.Hash{1} // 6 is a rollback to 1
	for _, c := range []struct {
		keep   int
		pinned []manifest.Hash
		want   []manifest.Number
	}{
		{3, nil, []manifest.Number{3, 2}},
		{1, nil, []manifest.Number{5, 4, 3, 2}},
		{0, []manifest.Hash{{3}}, []manifest.Number{5, 4, 2}},
		{9, nil, nil},
	} {
		var got []manifest.Number
		for _, h := range (Retention{Keep: c.keep, Pinned: c.pinned}).Surplus(all, all[5]) {
			got = append(got, h.Number)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("keep %d, pinned %v: %v goes, want %v", c.keep, c.pinned, got, c.want)
		}
	}
}

// The newest checkpoint with enough copies stays until a newer one has as many, and no more than
// that.
func TestSurplusSparesTheLastCopies(t *testing.T) {
	var all []manifest.Head
	for i := range 9 {
		n := i + 1
		h := manifest.Head{Number: manifest.Number(n), Manifest: manifest.Hash{byte(n)}, Copies: 1}
		all = append(all, h)
	}
	for _, c := range []struct {
		copies []int
		stay   []manifest.Number
	}{
		{[]int{1, 1, 1, 1, 1, 1, 1, 1, 1}, []manifest.Number{7, 8, 9}},
		{[]int{2, 2, 2, 1, 1, 1, 1, 1, 1}, []manifest.Number{3, 7, 8, 9}},
		{[]int{2, 2, 2, 1, 1, 1, 1, 2, 1}, []manifest.Number{7, 8, 9}},
		{[]int{3, 2, 2, 1, 1, 1, 1, 1, 1}, []manifest.Number{3, 7, 8, 9}},
		{[]int{0, 1, 1, 1, 1, 1, 1, 0, 0}, []manifest.Number{7, 8, 9}},
	} {
		for i, n := range c.copies {
			all[i].Copies = n
		}
		gone := Retention{Keep: 3, Replicas: 2}.Surplus(all, all[8])
		var stay []manifest.Number
		for _, h := range all {
			if !slices.ContainsFunc(gone, func(g manifest.Head) bool { return g.Number == h.Number }) {
				stay = append(stay, h.Number)
			}
		}
		if !slices.Equal(stay, c.stay) {
			t.Errorf("copies %v: %v stay, want %v", c.copies, stay, c.stay)
		}
	}
}

func realStore(t testing.TB) store.Store {
	t.Helper()
	srv := etcdtest.Start(t)
	s, err := etcd.Open(context.Background(), etcd.Config{Endpoints: srv.Endpoints()})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// The inventory of a node that has left still tells what it has: a node with parts of a checkpoint
// need not wait for another that has all of it.
func TestInventoriesOfNodesThatLeft(t *testing.T) {
	onEtcds(t, func(t *testing.T, s store.Store) {
		r := newRecord(s)
		here := register(t, s, "here", "1")
		for _, node := range []string{"here", "left"} {
			must(t, r.PublishInventory(t.Context(), node, []manifest.Number{6}))
		}
		must(t, r.PublishInventory(t.Context(), "older", []manifest.Number{5}))
		all, err := r.Inventories(t.Context(), 6)
		if err != nil || !slices.Equal(all, []string{"here", "left"}) {
			t.Errorf("inventories: %v, %v", all, err)
		}
		registered, err := r.InventoryHolders(t.Context(), 6)
		if err != nil || !slices.Equal(registered, []membership.Ref{here.Ref}) {
			t.Errorf("registered: %v, %v", registered, err)
		}
	})
}
