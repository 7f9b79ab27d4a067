package rendezvous

import (
	"fmt"
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestNewClaim(t *testing.T) {
	j := Job{UID: "u", Attempt: 1}
	w := World{Generation: 4, Attempt: 1, Phase: Running, NP: 3, Request: "r", WishRev: 9,
		Members: []membership.Ref{{Node: "a"}, {Node: "b"}}, Count: 2}
	c := NewClaim("b", j, Wish{}, &w)
	if c.World != 4 || c.Rank != 1 || !slices.Equal(c.Members, []string{"a", "b"}) || c.Wish.NP != 3 ||
		c.Phase != "" ||
		!c.Decides() {
		t.Errorf("%+v", c)
	}
	for range 150 {
		w.Members = append(w.Members, membership.Ref{Node: fmt.Sprint("n", len(w.Members))})
	}
	w.Count, w.Phase = len(w.Members), Stopped
	if c = NewClaim("a", j, Wish{}, &w); !c.Decides() || len(c.Members) != w.Count || c.Phase != Stopped {
		t.Errorf("rank 0 of many: %+v", c)
	}
	if c = NewClaim("n100", j, Wish{}, &w); c.Decides() || c.Members != nil || c.Count != w.Count {
		t.Errorf("rank 100 of many: %+v", c)
	}
}

// What the store shows of the job under an earlier uid is no commit of this job, because nodes may have gone
// on there without it. Its numbers are not given again all the same.
func TestWhatAClaimLearns(t *testing.T) {
	head := checkpoint.Head{Number: 5, Manifest: checkpoint.Hash{5}}
	for _, x := range []struct {
		what  string
		shown *Job
		known checkpoint.Number
	}{
		{"the job", &Job{UID: "u"}, 5},
		{"the job before it", &Job{UID: "t"}, 1},
		{"no job", nil, 1},
	} {
		c := Claim{Job: Job{UID: "u", Succeeds: "t"}, Known: checkpoint.Head{Number: 1}, Generation: 2, World: 2}
		c.Learn(&Snapshot{Job: x.shown, Head: head, Fence: 7})
		if c.Known.Number != x.known || c.Top != 5 || c.Generation != 7 {
			t.Errorf("of %s it learns %+v", x.what, c)
		}
	}
}

// A node that was away learns of the World that was proposed last, and of the commit that was made
// last, also if the store was set back and their numbers are smaller than those that it knew.
func TestAClaimLearnsOfTheLaterHistory(t *testing.T) {
	world := func(g schema.Generation, order schema.Order) *World {
		return &World{Generation: g, Order: order, Members: []membership.Ref{{Node: "b"}}, Count: 1}
	}
	for _, x := range []struct {
		what  string
		world *World
		head  checkpoint.Head
		want  Claim
	}{
		{"the next one", world(8, 80), checkpoint.Head{Number: 6, Order: 60},
			Claim{World: 8, Count: 1, Known: checkpoint.Head{Number: 6}, Lived: true, WishRev: 9, Top: 6}},
		{"a later one of a smaller generation", world(5, 80), checkpoint.Head{Number: 3, Order: 60},
			Claim{World: 5, Count: 1, Known: checkpoint.Head{Number: 3}, WishRev: 2, Top: 5}},
		{"an earlier one", world(6, 60), checkpoint.Head{Number: 4, Order: 40},
			Claim{World: 7, Count: 2, Known: checkpoint.Head{Number: 5}, Lived: true, WishRev: 9, Top: 4}},
		{"an earlier one of a larger generation", world(9, 60), checkpoint.Head{Number: 9, Order: 40},
			Claim{World: 7, Count: 2, Known: checkpoint.Head{Number: 5}, Lived: true, WishRev: 9, Top: 9}},
	} {
		c := Claim{Job: Job{UID: "u"}, Known: checkpoint.Head{Number: 5, Order: 50}, Generation: 7, World: 7,
			WorldOrder: 70, Count: 2, Lived: true, Spares: []string{"s"}, Wish: Wish{Request: "r"}, WishRev: 9}
		c.Learn(&Snapshot{Job: &Job{UID: "u"}, World: x.world, Head: x.head, Fence: x.world.Generation,
			Wish: Wish{Request: "q", Rev: 2}})
		if c.World != x.want.World || c.Count != x.want.Count || c.Known.Number != x.want.Known.Number ||
			c.Lived != x.want.Lived || c.Generation != max(7, x.world.Generation) || c.WishRev != x.want.WishRev ||
			c.Top != x.want.Top || (c.Spares == nil) != (c.WishRev == 2) {
			t.Errorf("%s: %+v", x.what, c)
		}
	}
}

// A job counts as given up only if the node had no part in it.
func TestGivenUp(t *testing.T) {
	of := func(uid schema.UID) Earlier { return Earlier{Claim: Claim{Job: Job{UID: uid}}} }
	ran, known, holds := of("ran"), of("known"), of("holds")
	ran.Claim.World, known.Claim.Known.Number, holds.Holds = 1, 1, true
	got := GivenUp([]Earlier{of("u"), ran, known, holds, of("v")})
	if want := []schema.UID{"u", "v"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	many := make([]Earlier, 20)
	for i := range many {
		many[i] = of(schema.UID(rune('a' + i)))
	}
	if got := GivenUp(many); len(got) != 16 || got[15] != "t" {
		t.Errorf("of twenty: %v", got)
	}
}
