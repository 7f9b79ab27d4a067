package runtime

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
)

// Generation 2 makes a save that is not committed. Then an operator restores a checkpoint of
// generation 1, and the store is lost before the next World. The job that is made again begins from
// what was restored.
func TestWipedAfterARestore(t *testing.T) {
	for name, l := range map[string]layout{"whole saves": layoutMarked, "saves in parts": layoutParts} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wipedAfterARestore(t, l) })
		})
	}
}

func wipedAfterARestore(t *testing.T, l layout) {
	s := newFaulty(t, 4, someFaults()) // two nodes
	s.layout, s.often, s.clocks = l, false, false
	if l == layoutParts {
		s.job.Rules.SaveFrom = checkpoint.SaveFromAll
	}
	s.threeSaves()
	both := []string{"a", "b"}
	for _, n := range both {
		s.at[n].kill()
	}
	time.Sleep(20 * time.Second)
	first := s.snapshot()
	for _, n := range both {
		s.up(n)
	}
	s.until("generation 2 runs", time.Minute, func(x rendezvous.Snapshot) bool {
		return x.Fence > first.Fence && s.running(0, 2)(x)
	})
	s.saveUncommitted(s.snapshot().Fence)
	time.Sleep(time.Minute)
	snap := s.snapshot()
	if snap.Head.Number != first.Head.Number {
		t.Fatalf("generation 2 committed %d", snap.Head.Number)
	}
	older := snap.History[slices.IndexFunc(snap.History,
		func(h checkpoint.Head) bool { return h.Number < snap.Head.Number })]
	operator := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
	if _, err := operator.Restore(t.Context(), &snap, older); err != nil {
		t.Fatal(err)
	}
	s.up("a")
	time.Sleep(10 * time.Second) // a waits for b, and notes the commits
	s.lose("wiped", s.etcd.Wipe)
	s.up("b")
	s.until("it goes on", 3*time.Minute, func(x rendezvous.Snapshot) bool {
		return x.World != nil && s.running(0, 2)(x)
	})
	if r := s.snapshot().World.Resume; r == nil || r.Manifest != older.Manifest {
		t.Errorf("it begins from %+v, and the operator restored %v", r, older.Manifest)
	}
	s.close()
}

// saveUncommitted ends both nodes when their disks have a save of generation g that is not
// committed.
func (s *faulty) saveUncommitted(g schema.Generation) {
	s.t.Helper()
	has := func(a *simAgent) bool {
		d := readonly.New(a.host.kept.chunks)
		all, err1 := d.Partial()
		held, err2 := d.Held()
		if err1 != nil || err2 != nil {
			s.t.Fatal(err1, err2)
		}
		if s.layout != layoutParts {
			all = held
		}
		return slices.ContainsFunc(all, func(h checkpoint.Hash) bool {
			m, err := d.ReadManifest(s.t.Context(), h)
			return err == nil && m != nil && m.Generation == g && !m.Part
		})
	}
	a, b := s.at["a"], s.at["b"]
	if s.layout != layoutParts {
		s.keepStoreFrom(a, true)
		s.keepStoreFrom(b, true)
	}
	saved := func() bool {
		if s.layout == layoutParts {
			return has(a) && has(b)
		}
		return has(a) || has(b) // the node of rank 0
	}
	for end := time.Now().Add(10 * time.Second); !saved(); {
		if time.Now().After(end) {
			s.t.Fatal("no save is on the disks")
		}
		time.Sleep(50 * time.Microsecond)
	}
	a.kill()
	b.kill()
	s.keepStoreFrom(a, false)
	s.keepStoreFrom(b, false)
}
