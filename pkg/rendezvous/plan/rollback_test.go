package plan

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// A forming World whose node a cannot get checkpoint 2, with these holders.
func unreadable(holders ...string) (*rendezvous.Snapshot, verdict.View) {
	ref := func(n string) membership.Ref {
		return membership.Ref{Node: n, Incarnation: membership.Incarnation(n + "1")}
	}
	s := &rendezvous.Snapshot{Rev: 9, Whole: true,
		Job: &rendezvous.Job{UID: "u", Attempt: 1, Limits: rendezvous.Limits{Min: 2, Max: 2, Exact: true},
			Slots: 1, Base: scaling.Base{Nodes: 2, Slots: 1}},
		Wish: rendezvous.Wish{NP: 2, Request: "r", Rev: 1}, Fence: 4, Ready: map[string]rendezvous.Ready{},
		Exits: map[string]rendezvous.Exit{}, Held: map[string]rendezvous.Held{},
		History: []checkpoint.Head{{Number: 1, Manifest: checkpoint.Hash{1}, Rev: 3},
			{Number: 2, Manifest: checkpoint.Hash{2}, Rev: 5}},
		Head: checkpoint.Head{Number: 2, Manifest: checkpoint.Hash{2}, Rev: 5},
		World: &rendezvous.World{UID: "u", Generation: 4, Attempt: 1, Phase: rendezvous.Forming, Count: 2,
			Slots: 1, Request: "r",
			Members: []membership.Ref{ref("a"), ref("b")},
			Resume:  &rendezvous.Resume{Number: 2, Manifest: checkpoint.Hash{2}}, Rev: 8},
		Doing: []rendezvous.Activity{{Node: "a", Kind: "unreadable", Done: 2, Rev: 9}},
	}
	for _, n := range []string{"a", "b"} {
		s.Nodes = append(s.Nodes, membership.Node{Ref: ref(n), Attempt: 1, Rev: 2})
		s.Held[n] = rendezvous.Held{Numbers: []checkpoint.Number{1}, Rev: 20}
	}
	for _, h := range holders {
		s.Head.Holders = append(s.Head.Holders, ref(h))
	}
	v := verdict.Judge(verdict.Records{Members: s.World.Members, Nodes: s.Nodes},
		verdict.Evidence{}, verdict.Timeouts{}, time.Time{})
	return s, v
}

func plan(s *rendezvous.Snapshot, v verdict.View) Step {
	return Next(Facts{Snapshot: s, View: v, Timeouts: DefaultTimeouts, Now: time.Time{}.Add(time.Hour)})
}

func TestAnUnreadableHeadYieldsToTheOneBefore(t *testing.T) {
	s, v := unreadable("a", "b")
	p, ok := plan(s, v).(Propose)
	if !ok || p.NewHead == nil || p.NewHead.Number != 3 || p.NewHead.Manifest != (checkpoint.Hash{1}) ||
		p.Older.Number != 1 {
		t.Fatalf("got %+v", plan(s, v))
	}
	if r := p.World.Resume; r.Number != 3 || r.Manifest != (checkpoint.Hash{1}) ||
		p.World.Generation != 5 {
		t.Errorf("the next world resumes from %+v in generation %d", r, p.World.Generation)
	}
}

func TestNoFallbackWhileAHolderMayComeBack(t *testing.T) {
	s, v := unreadable("a", "away")
	if step, ok := plan(s, v).(Nothing); !ok {
		t.Fatalf("got %+v", step)
	}
}

func TestNoFallbackBeforeALateHolderWasAsked(t *testing.T) {
	s, _ := unreadable("a", "b")
	s.Nodes[1].Rev = 12 // it came back after a had asked
	v := verdict.Judge(verdict.Records{Members: s.World.Members, Nodes: s.Nodes},
		verdict.Evidence{}, verdict.Timeouts{}, time.Time{})
	if step, ok := plan(s, v).(Nothing); !ok {
		t.Fatalf("got %+v", step)
	}
}

// A record of an unreadable checkpoint may be written after a holder registered that was not asked.
func TestNoFallbackBeforeAHolderThatCameDuringTheFetchWasAsked(t *testing.T) {
	s, _ := unreadable("a", "b")
	s.Nodes[1].Rev = 7
	v := verdict.Judge(verdict.Records{Members: s.World.Members, Nodes: s.Nodes},
		verdict.Evidence{}, verdict.Timeouts{}, time.Time{})
	s.Doing[0].Since = 6
	if step, ok := plan(s, v).(Nothing); !ok {
		t.Fatalf("got %+v", step)
	}
	s.Doing[0].Since = 7
	if _, ok := plan(s, v).(Propose); !ok {
		t.Fatalf("got %+v", plan(s, v))
	}
}

// The head goes back only to a checkpoint that a node has. A disk that is missing for a time would else
// cost the newest ones: each of them is "not there", down to the oldest.
func TestTheHeadGoesBackOnlyToACheckpointThatANodeHas(t *testing.T) {
	has := func(rev int64, numbers ...checkpoint.Number) rendezvous.Held {
		return rendezvous.Held{Numbers: numbers, Rev: rev}
	}
	for _, x := range []struct {
		name    string
		a, b    rendezvous.Held
		holders []membership.Ref // of checkpoint 1
		late    bool             // the barrier has waited for its limit
		want    string
	}{
		{"both have it", has(20, 1), has(20, 1), nil, false, "proposes"},
		{"one has it", has(20), has(20, 1), nil, false, "proposes"},
		{"no disk has anything", has(20), has(20), nil, false, "fails"},
		{"what b had before it registered does not count", has(20), has(1, 1), nil, false, "waits"},
		{"b says nothing", has(20), has(1, 1), nil, true, "fails"},
		{"b held it, and says nothing", has(20), has(1, 1), []membership.Ref{{Node: "b"}}, false, "waits"},
		{"b held it, and says nothing for long", has(20), has(1, 1), []membership.Ref{{Node: "b"}}, true,
			"proposes"},
		{"b held it, and has it no more", has(20), has(20), []membership.Ref{{Node: "b"}}, true, "fails"},
		{"it is on a node that is away", has(20), has(20), []membership.Ref{{Node: "away"}}, true, "waits"},
		{"it is here, and on a node that is away", has(20, 1), has(20), []membership.Ref{{Node: "away"}}, false,
			"proposes"},
	} {
		s, v := unreadable("a", "b")
		s.Held["a"], s.Held["b"], s.History[0].Holders = x.a, x.b, x.holders
		since := time.Time{}.Add(time.Hour)
		if x.late {
			since = time.Time{}
		}
		got := "waits"
		switch step := Next(Facts{Snapshot: s, View: v, Timeouts: DefaultTimeouts, Now: time.Time{}.Add(time.Hour),
			Observed: Observed{PhaseSince: since}}).(type) {
		case Propose:
			got = "proposes"
		case End:
			if got = "fails"; step.Outcome.Code != 93 || step.Outcome.Why != rendezvous.CheckpointLost {
				t.Errorf("%s: ends with %+v", x.name, step.Outcome)
			}
		}
		if got != x.want {
			t.Errorf("%s: it %s, want %s", x.name, got, x.want)
		}
	}
}

func TestAJobWithoutAnyReadableCheckpointEndsLoudly(t *testing.T) {
	s, v := unreadable("a", "b")
	s.History[0].Manifest = s.Head.Manifest // the same bytes under another number
	end, ok := plan(s, v).(End)
	if !ok || end.Phase != rendezvous.Failed || end.Outcome.Code != 93 ||
		end.Outcome.Why != rendezvous.CheckpointLost {
		t.Fatalf("got %+v", end)
	}
}

// A node gives up a state in memory from before a rollback, whichever World it sees first.
func TestRollbackIsRemembered(t *testing.T) {
	for _, x := range []struct {
		name string
		set  func(s *rendezvous.Snapshot)
		want schema.Generation
	}{
		{"there was none", func(*rendezvous.Snapshot) {}, 0},
		{"an earlier one", func(s *rendezvous.Snapshot) { s.World.Rollback = 3 }, 3},
		{"an operator restored a checkpoint", func(s *rendezvous.Snapshot) { s.Fence = 5 }, 6},
		{"the newest commit is not trusted", func(s *rendezvous.Snapshot) {
			s.World.Ledger.Back = &rendezvous.Back{From: 2, To: 1, Why: "it fails at the same step"}
		}, 5},
		{"the newest commit cannot be read", func(s *rendezvous.Snapshot) {
			s.Doing = []rendezvous.Activity{{Node: "a", Kind: "unreadable", Done: 2, Rev: 9}}
		}, 0},
	} {
		s, _ := unreadable("a", "b")
		s.Doing = nil
		s.Wish.Request = "another"
		s.Wish.NP = 3
		x.set(s)
		s.Nodes = append(s.Nodes,
			membership.Node{Ref: membership.Ref{Node: "c", Incarnation: "c1"}, Attempt: 1, Rev: 2})
		s.Job.Limits = rendezvous.Limits{Min: 1, Max: 3, Exact: true}
		v := verdict.Judge(verdict.Records{Members: s.World.Members, Nodes: s.Nodes},
			verdict.Evidence{}, verdict.Timeouts{}, time.Time{})
		p, ok := plan(s, v).(Propose)
		if !ok || p.World.Rollback != x.want {
			t.Errorf("%s: rollback %d, want %d: %+v", x.name, p.World.Rollback, x.want, plan(s, v))
		}
	}
}
