package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The order of a World is the time of its proposal, and above that of the World before, whatever the
// clock shows.
func TestOrderOfWorlds(t *testing.T) {
	c := memory.New()
	r := txn.Requests{Store: c.Client("a"), Job: "x"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(key string, v any) {
		t.Helper()
		_, err := r.Store.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(key, schema.Encode(v))}})
		must(err)
	}
	read := func() *rendezvous.Snapshot {
		t.Helper()
		s, err := rendezvous.Read(t.Context(), r.Store, r.Job)
		must(err)
		return &s
	}
	must(r.Create(t.Context(), rendezvous.Job{UID: "u", Attempt: 1, Slots: 1,
		Limits: rendezvous.Limits{Min: 1, Max: 1}}))
	me := membership.Node{Ref: membership.Ref{Node: "a", Incarnation: "a1"}, Attempt: 1, Slots: 1}
	put(r.Job.Node("a"), me)
	me.Rev = read().Node("a").Rev
	propose := func(g schema.Generation) schema.Order {
		t.Helper()
		_, err := r.Propose(t.Context(), read(), me, plan.Propose{World: rendezvous.World{UID: "u",
			Generation: g, Attempt: 1, Phase: rendezvous.Forming, Count: 1,
			Members: []membership.Ref{me.Ref}, NP: 1, Slots: 1}})
		must(err)
		return read().World.Order
	}
	began := schema.Order(time.Now().UnixMilli())
	first := propose(1)
	if now := schema.Order(time.Now().UnixMilli()); first < began || first > now {
		t.Errorf("the order of the first World is %d, the time was %d to %d", first, began, now)
	}
	ahead := *read().World
	ahead.Order += 1 << 40 // its clock was ahead
	put(r.Job.World(), ahead)
	if next := propose(2); next != ahead.Order+1 {
		t.Errorf("the order of the next World is %d, that before is %d", next, ahead.Order)
	}
	head := checkpoint.Head{Number: 1, Generation: 2, Order: ahead.Order + 50}
	put(r.Job.Head(), head)
	if next := propose(3); next != head.Order+1 {
		t.Errorf("the order of the next World is %d, that of the head is %d", next, head.Order)
	}
}
