package machine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// replayed is a teller after the lines of a story.
func replayed(t *testing.T, lines ...string) *teller {
	t.Helper()
	w := newTeller()
	for _, l := range lines {
		if err := w.line(l); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	w.transcript()
	return w
}

// A request may be answered after the life that asked is over: the next one hears nothing of it.
func TestAnswersOfAnEarlierLifeAreNotHeard(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
		"ok start",
		"proposed 2: b c", "workers gone", "ok close", "after 1s", "enters")
	if !w.m.is("a2") {
		t.Fatalf("it is %v, not in its second life", w.m.self.node)
	}
	w.m.Decide(event.Left{As: "a1"}, w.now)
	if !w.m.is("a2") {
		t.Error("that the first life left ends the second")
	}
	lease, rev := w.m.self.node.Lease, w.m.self.node.Rev
	done := w.m.Decide(event.Registered{As: "a1", Lease: 99, Rev: 98, TTL: time.Second}, w.now)
	if w.m.self.node.Lease != lease || w.m.self.node.Rev != rev {
		t.Error("the registration of the first life is taken for that of the second")
	}
	if !slices.Contains(done, action.Action(action.Forget{Lease: store.Lease(99)})) {
		t.Errorf("nobody gives the lease of the first life back: %v", done)
	}
	if slices.ContainsFunc(done, func(a action.Action) bool { _, ok := a.(action.Renew); return ok }) {
		t.Error("the lease of the first life is renewed")
	}
}

// What was asked for a job that the store has lost since may be answered when nothing of the next
// one is known.
func TestAnAnswerOfALostJob(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready")
	job := w.job
	job.UID, job.Succeeds = "another", w.job.UID
	w.m.drop()
	w.m.adoptJob(job)
	w.m.Decide(event.Readied{Generation: 1, Begun: w.now}, w.now)
	if w.m.seen.world != nil {
		t.Errorf("it knows world %+v", w.m.seen.world)
	}
}

// Who follows its own keys only has no whole picture, also when the last one comes late.
func TestALateWholeSnapshotIsNotKept(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start")
	own := follow.ScopeOwn
	w.m.keeper.scope, w.m.seen.snap.Whole = &own, false
	w.m.keeper.nodes, w.m.seen.world.Count, w.m.keeper.lookAgain = 100, 100, w.now.Add(time.Hour)
	w.m.seen.world.Members = append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")}, w.m.seen.world.Members...)
	w.rev++
	w.see(w.copy(), false)
	if w.m.seen.snap.Whole {
		t.Error("it plans by a picture that nothing makes newer")
	}
}

// What is known of those who are gone is forgotten with them.
func TestWhatIsRememberedDoesNotGrow(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start")
	for life := 2; life < 30; life++ {
		for _, l := range []string{"heard b closed", "ok suspect", "b expires", "after 5s",
			fmt.Sprintf("proposed %d: a", 2*life), "after 1s", "b joins", "after 1s",
			fmt.Sprintf("proposed %d: a b", 2*life+1), "after 1s"} {
			if err := w.line(l); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		}
	}
	m := w.m
	for what, n := range map[string]int{"absent": len(m.peers.evidence.Absent),
		"answers": len(m.peers.evidence.Answers), "again": len(m.requests.rests),
		"probed": len(m.peers.probed), "suspected": len(m.peers.suspected), "written": len(m.peers.written)} {
		if n > 5 {
			t.Errorf("%s: %d after 30 lives of b", what, n)
		}
	}
}

// One node explains it until others accuse each other, of whom each was in doubt before: silence
// counts for nothing from then on, for a window.
func TestANewDoubtMakesACrowdOfWhomOneExplained(t *testing.T) {
	now := time.Now()
	m := New(Config{}, now)
	var members []membership.Ref
	var nodes []membership.Node
	for _, name := range []string{"a", "b", "c"} {
		r := membership.Ref{Node: name, Incarnation: membership.Incarnation(name)}
		members, nodes = append(members, r), append(nodes, membership.Node{Ref: r})
	}
	var suspects []membership.Suspicion
	for _, x := range []struct {
		by, about string
		void      bool
	}{{"c", "a", false}, {"c", "b", false}, {"a", "c", false}, {"b", "c", false}, {"a", "b", true}} {
		suspects = append(suspects, membership.Suspicion{Node: x.about, Incarnation: membership.Incarnation(x.about),
			By: x.by, Watcher: membership.Incarnation(x.by)})
		m.peers.view = verdict.Judge(members, nodes, nil, suspects, m.peers.evidence, m.limits, now)
		m.noteCrowd(verdict.ManyInDoubt(m.peers.view, len(members)))
		if got := m.peers.evidence.Void.After(now); got != x.void {
			t.Errorf("after %s suspected %s silence is void: %v, want %v", x.by, x.about, got, x.void)
		}
	}
}

// It follows everything for as long as its record may be there, and no longer.
func TestWhoOwesNothingFollowsItsOwn(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start",
		"heard b silent", "ok suspect", "heard b again")
	m := w.m
	m.keeper.nodes, m.seen.world.Members = 100, append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")},
		m.seen.world.Members...)
	scope := func() follow.Scope {
		m.follow()
		return *m.keeper.scope
	}
	m.keeper.lookAgain = w.now.Add(time.Hour)
	if len(m.peers.suspected) > 0 || len(m.peers.written) > 0 || len(m.seen.snap.Suspects) != 1 ||
		scope() != follow.ScopeAll {
		t.Errorf("its record is in the store, %v, and it does not look there", m.seen.snap.Suspects)
	}
	m.seen.snap.Suspects, m.seen.snap.Rev = nil, m.peers.newestRecord-1
	if scope() != follow.ScopeAll {
		t.Error("an older picture, without the record, is taken for the end of it")
	}
	m.seen.snap.Rev = m.peers.newestRecord
	if scope() != follow.ScopeOwn {
		t.Error("its record is gone, and it goes on following everything")
	}
}

// A job that cannot be read is one that the store does not tell of: nothing ends, and renewals of
// the lease do not hide it.
func TestUnreadableJobIsAStoreThatIsAway(t *testing.T) {
	for _, kind := range []error{schema.ErrNewerFormat, schema.ErrBadRecord} {
		w := replayed(t, "job 1", "enters", "a joins")
		w.m.Decide(event.Saw{Update: follow.Update{Err: fmt.Errorf("read: %w", kind)}}, w.now)
		w.m.Decide(event.Renewed{Lease: w.m.self.node.Lease, Sent: w.now}, w.now)
		if w.m.over != nil || w.m.seen.awaySince.IsZero() || w.m.seen.unreadable == nil {
			t.Errorf("%v: over %+v, away since %v", kind, w.m.over, w.m.seen.awaySince)
		}
	}
}

// A state in memory of before a rollback is given up, also by a node that heard of it only with a
// later generation.
func TestStatesOfBeforeARollbackAreGivenUp(t *testing.T) {
	for _, x := range []struct {
		rollback schema.Generation
		stays    bool
	}{{0, true}, {1, true}, {2, false}, {3, false}} {
		w := replayed(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step",
			"ok read", "ok start",
			"workers can stay", "proposed 3: a c", "unseen")
		w.s.World.Rollback = x.rollback
		done := w.m.Decide(event.Saw{Update: follow.Update{Snapshot: w.copy()}}, w.now)
		stays := slices.ContainsFunc(done, func(a action.Action) bool { _, ok := a.(action.PauseWorkers); return ok })
		if stays != x.stays {
			t.Errorf("after a rollback in generation %d the workers of generation 1 stay: %v, want %v", x.rollback,
				stays, x.stays)
		}
	}
}
