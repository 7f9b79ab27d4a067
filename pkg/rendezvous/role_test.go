package rendezvous_test

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// Workers are counted within their role, in the order of ranks, as torchrun's agents do.
func TestOtherRoles(t *testing.T) {
	type others = struct{ Before, All int }
	w := &rendezvous.World{Count: 4, Slots: 2, Members: []membership.Ref{{Node: "a"},
		{Node: "b", Role: "reader"}, {Node: "c"}, {Node: "d", Role: "reader"}}}
	for rank, want := range []others{{0, 4}, {2, 4}, {2, 4}, {4, 4}} {
		if got := w.OtherRoles(rank); got != want {
			t.Errorf("node %d: %+v, want %+v", rank, got, want)
		}
	}
	w.Ranks = [][]int{{0}, {1, 2, 3}, {}, {4, 5}}
	if got, want := w.OtherRoles(3), (others{1, 1}); got != want {
		t.Errorf("nodes of different sizes: %+v, want %+v", got, want)
	}
}

// The list of members in plan/ has their roles, and is read as it was written.
func TestMembersKeepTheirRoles(t *testing.T) {
	refs := []membership.Ref{{Node: "a", Incarnation: "i1", Address: "h:1"},
		{Node: "b", Incarnation: "i2", Address: "h:2", Role: "two words"}}
	want := "a i1 h:1\nb i2 h:2 two words\n"
	if got := string(rendezvous.EncodeMembers(refs)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	st := memory.New().Client("test")
	_, err := st.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(schema.Job("x").Plan("p", 0), []byte(want))}})
	if err != nil {
		t.Fatal(err)
	}
	w := &rendezvous.World{Proposal: "p", Count: 2, Chunks: 1}
	if err := rendezvous.ReadMembers(t.Context(), st, "x", w); err != nil || !slices.Equal(w.Members, refs) {
		t.Errorf("read %+v, %v", w.Members, err)
	}
}
