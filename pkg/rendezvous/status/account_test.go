package status_test

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func TestAccount(t *testing.T) {
	t.Parallel()
	gone := "agent gone"
	next := "`elastic run` on 1 more node"
	for name, test := range map[string]struct {
		s    rendezvous.Snapshot
		st   status.Status
		want []string
	}{
		"a node is missing": {rendezvous.Snapshot{}, status.Status{Job: "x", State: status.StateWaiting,
			Why: "waiting for 1 more node",
			Nodes: []status.Node{{Node: "b", State: status.NodeLost, Why: &gone},
				{Node: "a", State: status.NodeWaiting}}, Next: &next},
			[]string{"job x is waiting: waiting for 1 more node", "node b is lost: agent gone",
				"next: `elastic run` on 1 more node"}},
		"a node came and was never ready": {rendezvous.Snapshot{
			Events: []history.Event{{Kind: history.NodeLost, Node: "c", Generation: 3,
				Fields: history.Fields{"reason": "not-ready"}}},
			World: &rendezvous.World{Generation: 4, Quarantine: []rendezvous.Quarantine{{Node: "c", Until: 6},
				{Node: "d", Until: 4}}}},
			status.Status{Job: "x", State: status.StateRunning, Why: "generation 4 runs", Generation: 4},
			[]string{"job x is running: generation 4 runs",
				"node c joined, but was not ready for generation 3 in time",
				"node c is left out until generation 6"}},
		"a barrier is not full": {rendezvous.Snapshot{
			World: &rendezvous.World{Generation: 2, Members: []membership.Ref{{Node: "a", Incarnation: "1"},
				{Node: "b", Incarnation: "2"}, {Node: "c", Incarnation: "3"}}},
			Ready: map[string]rendezvous.Ready{"a": {Incarnation: "1"}, "b": {Incarnation: "old"}}},
			status.Status{Job: "x", State: status.StateStarting, Why: "generation 2 starts", Generation: 2,
				Doing: []status.Activity{{Node: "c", What: "fetching"}}},
			[]string{"job x is starting: generation 2 starts",
				"node b is not ready for generation 2 yet: it is stopping older workers or choosing ports",
				"node c is not ready for generation 2 yet: it is fetching"}},
		"a failure, and the start after it": {rendezvous.Snapshot{},
			status.Status{Job: "x", State: status.StateRunning, Why: "generation 2 runs", Generation: 2,
				Failure: &status.Failure{Generation: 1,
					Text:    "rank 3 on b ended with exit code 1: ValueError: bad",
					Message: "ValueError: bad", Detail: "Traceback\nValueError: bad"},
				Waterfall: &rendezvous.Timing{By: "a", Sign: "worker-failed", Decided: new(int64(50)),
					Barrier: new(int64(150)), Last: "b"}},
			[]string{"job x is running: generation 2 runs",
				"newest failure, in generation 1: rank 3 on b ended with exit code 1: ValueError: bad",
				"  Traceback", "  ValueError: bad",
				"the start of generation 2, in seconds since its first sign (worker-failed), as seen on a:",
				"    0.050  decided                          ##",
				"    0.150  barrier full, b was the last     ####"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := strings.Join(status.Account(&test.s, test.st), "\n"), strings.Join(test.want, "\n")
			if got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}
