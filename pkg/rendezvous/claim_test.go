package rendezvous

import (
	"fmt"
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
)

func TestClaimed(t *testing.T) {
	j := Job{UID: "u", Attempt: 1}
	w := World{Generation: 4, Attempt: 1, Phase: Running, NP: 3, Request: "r", WishRev: 9,
		Members: []membership.Ref{{Node: "a"}, {Node: "b"}}, Count: 2}
	c := Claimed("b", j, Wish{}, &w)
	if c.World != 4 || c.Rank != 1 || !slices.Equal(c.Members, []string{"a", "b"}) || c.Wish.NP != 3 ||
		c.Phase != "" ||
		!c.Decides() {
		t.Errorf("%+v", c)
	}
	for range 150 {
		w.Members = append(w.Members, membership.Ref{Node: fmt.Sprint("n", len(w.Members))})
	}
	w.Count, w.Phase = len(w.Members), Stopped
	if c = Claimed("a", j, Wish{}, &w); !c.Decides() || len(c.Members) != w.Count || c.Phase != Stopped {
		t.Errorf("rank 0 of many: %+v", c)
	}
	if c = Claimed("n100", j, Wish{}, &w); c.Decides() || c.Members != nil || c.Count != w.Count {
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
