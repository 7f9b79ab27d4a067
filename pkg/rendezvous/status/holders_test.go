package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// cannotRead7 returns a job whose generation 2 is forming on node a, which cannot read checkpoint 7.
// Node b is not registered.
func cannotRead7() (s rendezvous.Snapshot, now time.Time, a, b membership.Ref) {
	now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a, b = membership.Ref{Node: "a", Incarnation: "1"}, membership.Ref{Node: "b", Incarnation: "2"}
	s = rendezvous.Snapshot{
		Job: &rendezvous.Job{Name: "x", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}},
		World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming, Count: 1, Time: now,
			Members: []membership.Ref{a}},
		Nodes: []membership.Node{{Ref: a, Attempt: 1}},
		Doing: []rendezvous.Activity{{Node: "a", Kind: "unreadable", Done: 7}},
	}
	return s, now, a, b
}

// A job that waits for the only holder of its newest checkpoint names it.
func TestTheHolderThatIsAwayIsNamed(t *testing.T) {
	s, now, a, b := cannotRead7()
	s.Head = checkpoint.Head{Number: 7, Holders: []membership.Ref{b}}
	const want = "generation 2 starts when a is ready; checkpoint 7 is only on b: bring back one that has it"
	if got := status.Explain(&s, now).Why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Head.Holders = []membership.Ref{a, b} // a has another disk now
	const lost = "generation 2 starts when a is ready; no node here can read checkpoint 7, and b may have it: " +
		"bring back one that has it"
	if got := status.Explain(&s, now).Why; got != lost {
		t.Errorf("%q, want %q", got, lost)
	}
	s.Nodes = append(s.Nodes, membership.Node{Ref: b, Attempt: 1})
	if got := status.Explain(&s, now).Why; strings.Contains(got, "bring back") {
		t.Errorf("its holder is here: %q", got)
	}
}

// For a checkpoint in parts, the copies of the weakest part count. All holders that are away are
// named, because it is not known which of them has the missing part.
func TestPartsOfTheCheckpoint(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a, b := membership.Ref{Node: "a", Incarnation: "1"}, membership.Ref{Node: "b", Incarnation: "2"}
	c := membership.Ref{Node: "c", Incarnation: "3"}
	s := rendezvous.Snapshot{
		Job: &rendezvous.Job{Name: "x", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 3},
			Rules: rendezvous.Rules{Replicas: 2}},
		World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming, Count: 1, Time: now,
			Members: []membership.Ref{a}},
		Nodes: []membership.Node{{Ref: a, Attempt: 1}, {Ref: b, Attempt: 1}, {Ref: c, Attempt: 1}},
		Head: checkpoint.Head{Number: 7, Holders: []membership.Ref{a, b, c}, Rev: 9,
			Parts: []checkpoint.HeldPart{
				{Holders: []string{"a", "b"}}, {Holders: []string{"b", "c"}}, {Holders: []string{"c", "a"}}}},
		Held:   map[string]rendezvous.Held{"a": {Rev: 12}},
		Doing:  []rendezvous.Activity{{Node: "a", Kind: "unreadable", Done: 7}},
		Events: []history.Event{{Kind: history.NodeLost, Node: "c"}},
	}
	check := func(what string, copies, parts int) {
		t.Helper()
		if k := status.Explain(&s, now).Checkpoint; k.Copies != copies || k.Parts != parts {
			t.Errorf("%s: %d copies, %d parts, on %v", what, k.Copies, k.Parts, k.Holders)
		}
	}
	check("all are here", 2, 3)
	s.Nodes = s.Nodes[:2]
	check("one is lost", 1, 3)
	const want = "generation 2 starts when a is ready; parts of checkpoint 7 are only on nodes that are " +
		"away: bring back c"
	if got := status.Explain(&s, now).Why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Held["a"] = rendezvous.Held{Numbers: []checkpoint.Number{7}, Rev: 12}
	check("one has all of it", 1, 0)
	s.Held["b"] = s.Held["a"]
	check("two have", 2, 0)
}

// No holder of the newest checkpoint can read it, and a node that may have an older one is away.
func TestTheNodeWithAnOlderCheckpointIsNamed(t *testing.T) {
	s, now, a, b := cannotRead7()
	s.Head = checkpoint.Head{Number: 7, Manifest: checkpoint.Hash{7}, Holders: []membership.Ref{a}}
	older := checkpoint.Head{Number: 6, Manifest: checkpoint.Hash{6}, Holders: []membership.Ref{a, b}}
	s.History = []checkpoint.Head{older, s.Head}
	s.Held = map[string]rendezvous.Held{"a": {Rev: 12}}
	const want = "generation 2 starts when a is ready; no holder can read checkpoint 7, " +
		"and b may have checkpoint 6: bring it back"
	if got := status.Explain(&s, now).Why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A job that was made again has events of its older generations, and no World yet.
func TestASaveThatWasRefusedBeforeTheJobWasLost(t *testing.T) {
	s := rendezvous.Snapshot{
		Job:    &rendezvous.Job{Name: "x", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}},
		Events: []history.Event{{Kind: history.Refused, Generation: 3}, {Kind: history.JobRemade, Generation: 3}},
	}
	if st := status.Explain(&s, time.Now()); st.Untaken != nil {
		t.Errorf("%+v is shown", st.Untaken)
	}
}

// A node says why it is not ready, and the status passes that on.
func TestANodeThatIsBlockedSaysWhy(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a := membership.Ref{Node: "a", Incarnation: "1"}
	s := rendezvous.Snapshot{
		Job: &rendezvous.Job{Name: "x", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}},
		World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming, Count: 1, Time: now,
			Members: []membership.Ref{a}},
		Nodes: []membership.Node{{Ref: a, Attempt: 1}},
		Doing: []rendezvous.Activity{{Node: "a", Kind: "blocked", Text: "no space left on device"}},
	}
	const want = "generation 2 starts when a is ready; a is not: no space left on device"
	st := status.Explain(&s, now)
	if st.Why != want {
		t.Errorf("%q, want %q", st.Why, want)
	}
	account := strings.Join(status.Account(&s, st), "\n")
	if !strings.Contains(account, "it is blocked: no space left on device") {
		t.Errorf("the account is\n%s", account)
	}
}
