package message

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// A node that has just joined does not print why the generation before ended: its earlier
// incarnation may be the cause. A node that was there prints it.
func TestCauseOfAGeneration(t *testing.T) {
	forming := func(g schema.Generation) *Facts {
		w := &rendezvous.World{Generation: g, Phase: rendezvous.Forming, CauseText: "vm leaves (interrupted)"}
		w.Members = append(w.Members, membership.Ref{Node: "vm"})
		return &Facts{World: w, Snapshot: &rendezvous.Snapshot{}, Joined: true, Listed: true, Member: true}
	}
	texts := func(n *Notices, f *Facts) (all []string) {
		for _, l := range n.Lines(f) {
			all = append(all, l.Text)
		}
		return all
	}
	var n Notices
	if got, want := texts(&n, forming(4)), []string{"generation 4 starting: vm"}; !slices.Equal(got, want) {
		t.Errorf("a node that has just come: %q, want %q", got, want)
	}
	want := []string{"vm leaves (interrupted)", "the workers did not save", "generation 5 starting: vm"}
	f := forming(5)
	f.World.Unsaved = "did not save"
	if got := texts(&n, f); !slices.Equal(got, want) {
		t.Errorf("a node that was there: %q, want %q", got, want)
	}
}
