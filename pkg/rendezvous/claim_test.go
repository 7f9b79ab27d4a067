package rendezvous

import (
	"fmt"
	"slices"
	"testing"

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
