package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A job that waits for the only holder of its newest checkpoint says so.
func TestTheHolderThatIsAwayIsNamed(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a, b := membership.Ref{Node: "a", Incarnation: "1"}, membership.Ref{Node: "b", Incarnation: "2"}
	s := rendezvous.Snapshot{
		Job: &rendezvous.Job{Name: "x", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}},
		World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming, Count: 1, Time: now,
			Members: []membership.Ref{a}},
		Nodes: []membership.Node{{Ref: a, Attempt: 1}},
		Head:  checkpoint.Head{Number: 7, Holders: []membership.Ref{b}},
		Doing: []rendezvous.Activity{{Node: "a", Kind: "unreadable", Done: 7}},
	}
	const want = "generation 2 starts when a is ready; checkpoint 7 is only on b: bring back one that has it"
	if got := status.Explain(&s, now).Why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Nodes = append(s.Nodes, membership.Node{Ref: b, Attempt: 1})
	if got := status.Explain(&s, now).Why; strings.Contains(got, "only on") {
		t.Errorf("its holder is here: %q", got)
	}
}
