package node

import (
	"testing"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Workers are counted within their role, in the order of ranks, as torchrun's agents do.
func TestOthersThan(t *testing.T) {
	w := &rendezvous.World{Count: 4, Slots: 2, Members: []membership.Ref{{Node: "a"},
		{Node: "b", Role: "reader"}, {Node: "c"}, {Node: "d", Role: "reader"}}}
	for rank, want := range []launch.Others{{Before: 0, All: 4}, {Before: 2, All: 4},
		{Before: 2, All: 4}, {Before: 4, All: 4}} {
		if got := othersThan(w, rank); got != want {
			t.Errorf("node %d: %+v, want %+v", rank, got, want)
		}
	}
	w.Ranks = [][]int{{0}, {1, 2, 3}, {}, {4, 5}}
	if got, want := othersThan(w, 3), (launch.Others{Before: 1, All: 1}); got != want {
		t.Errorf("nodes of different sizes: %+v, want %+v", got, want)
	}
	for given, want := range map[string]string{"": "", "default": "", "reader": "reader"} {
		if got := counted(given); got != want {
			t.Errorf("--role=%s is %q, want %q", given, got, want)
		}
	}
}
