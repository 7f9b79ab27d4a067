package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// A node's record of its activity counts while the node renews it. A node that was killed while
// saving does not hold up others without end.
func TestAStaleRecordOfSavingIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2", 1)
		at := map[string]*simAgent{"a": s.start("a"), "b": s.start("b")}
		s.until("generation 1 runs", 5*time.Second, s.running(1, 2))
		members := s.snapshot().World.Members
		w := store.Put(s.job.Name.Doing(members[0].Node),
			schema.Encode(rendezvous.Activity{Kind: "saving", Done: 1, Total: 2}))
		if _, err := s.etcd.Client("writer").Txn(t.Context(), store.Txn{Then: []store.Write{w}}); err != nil {
			t.Fatal(err)
		}
		at[members[1].Node].stuck.close = true // it never says that it saved
		s.scale(1)
		s.until("one goes on alone", 3*time.Minute,
			func(x rendezvous.Snapshot) bool { return x.World.Generation == 2 })
		s.finish()
	})
}

// The records of nodes that are gone are removed with the next generation that runs.
func TestRecordsOfTheDeadAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2", 1)
		job := s.job.Name
		a := s.form("a", "b")[0]
		var then []store.Write
		for _, node := range []string{"b", "old", "older"} {
			then = append(then,
				store.Put(job.Doing(node), schema.Encode(rendezvous.Activity{Kind: "saving"})),
				store.Put(job.Held(node), schema.Encode([]checkpoint.Number{1})))
		}
		if _, err := s.etcd.Client("writer").Txn(t.Context(), store.Txn{Then: then}); err != nil {
			t.Fatal(err)
		}
		a.kill()
		s.start("a")
		s.until("generation 2 runs", 20*time.Second, s.running(2, 2))
		time.Sleep(time.Second)
		snap := s.snapshot()
		if len(snap.Doing) != 1 || snap.Doing[0].Node != "b" {
			t.Errorf("these are said to do something: %v", snap.Doing)
		}
		if _, ok := snap.Held["b"]; !ok || len(snap.Held) != 1 {
			t.Errorf("these are said to hold something: %v", snap.Held)
		}
		s.finish()
	})
}
