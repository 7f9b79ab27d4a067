package status_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A job that is done says how to get its result, if there is one, and how to remove it.
func TestNextOfDone(t *testing.T) {
	t.Parallel()
	for number, want := range map[checkpoint.Number]string{
		0: "elastic rm x removes the job and its files here",
		7: "elastic ckpt get x 7 DIR writes out its last checkpoint; " +
			"elastic rm x removes the job and its files here",
	} {
		s := rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x", Attempt: 1},
			World: &rendezvous.World{Attempt: 1, Generation: 1, Phase: rendezvous.Done,
				Outcome: &rendezvous.Outcome{}},
			Head: checkpoint.Head{Number: number}}
		if st := status.Explain(&s, time.Now()); st.Next == nil || *st.Next != want {
			t.Errorf("checkpoint %d: %v, want %q", number, st.Next, want)
		}
	}
}

// Agents of several versions are shown; those of one are not.
func TestVersionsThatDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, why string }{
		{"v1.0.0", "v1.1.0", "its elastic is v1.1.0, that of a is v1.0.0"},
		{"v1.0.0", "v1.0.0", ""},
		{"v1.0.0", "", ""}, // an agent that does not say its version
	} {
		node := func(name, version string) membership.Node {
			return membership.Node{Ref: membership.Ref{Node: name, Incarnation: "1"}, Version: version}
		}
		s := rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x", Attempt: 1},
			Nodes: []membership.Node{node("a", c.a), node("b", c.b)}}
		got := ""
		for _, n := range status.Explain(&s, time.Now()).Nodes {
			if n.Why != nil {
				got += *n.Why
			}
		}
		if got != c.why {
			t.Errorf("%s and %s: %q", c.a, c.b, got)
		}
	}
}
