package machine

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// replayed returns a teller after these lines of a story.
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

// The answer to a request may come after the incarnation that sent it is over. The next incarnation
// ignores it.
func TestAnswersOfAnEarlierLifeAreNotHeard(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step",
		"ok read", "ok start", "proposed 2: b c", "workers gone", "ok close", "after 1s", "enters")
	if !w.m.is("a2") {
		t.Fatalf("it is %v, not in its second life", w.m.self.node)
	}
	w.m.Decide(message.Left{As: "a1"}, w.now)
	if !w.m.is("a2") {
		t.Error("that the first life left ends the second")
	}
	lease, rev := w.m.self.node.Lease, w.m.self.node.Rev
	done := w.m.Decide(message.Registered{As: "a1", Lease: 99, Rev: 98, TTL: time.Second}, w.now)
	if w.m.self.node.Lease != lease || w.m.self.node.Rev != rev {
		t.Error("the registration of the first life is taken for that of the second")
	}
	if !slices.Contains(done, message.Action(message.Forget{Lease: store.Lease(99)})) {
		t.Errorf("the lease of the first life is not given back: %v", done)
	}
	if slices.ContainsFunc(done, func(a message.Action) bool { _, ok := a.(message.Renew); return ok }) {
		t.Error("the lease of the first life is renewed")
	}
}

// The answer to a request for a lost job may come when nothing of the next job is known.
func TestAnAnswerOfALostJob(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready")
	job := w.job
	job.UID, job.FirstUID, job.Remade = "another", w.job.UID, 1
	w.m.drop()
	w.m.rejoin(job)
	w.m.Decide(message.Readied{Generation: 1, Begun: w.now}, w.now)
	if w.m.seen.world != nil {
		t.Errorf("it knows world %+v", w.m.seen.world)
	}
}

// A node that trained, and finds the job made again and done, did train.
func TestWhoTrainedKnowsThatInTheNextJob(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start")
	job := w.job
	job.UID, job.FirstUID, job.Remade = "another", w.job.UID, 1
	w.m.drop()
	w.m.rejoin(job)
	w.m.applyEntered(message.Entered{Over: &message.Result{}})
	if w.m.over.Err != nil {
		t.Errorf("it ends with %d: %v", w.m.over.Status, w.m.over.Err)
	}
}

// Two stores that lost their data count up to the same revisions. What was reported to the first one is reported
// to the second one.
func TestAFailureIsReportedToTheNextStore(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start",
		"after 3s", "worker 3", "ok failure")
	rev, job := w.m.seen.world.Rev, w.job
	job.UID, job.FirstUID, job.Remade = "another", w.job.UID, 1
	w.m.continueJob(job)
	w.m.seen.world.Rev = rev
	reports := func(a message.Action) bool { _, ok := a.(message.ReportFailures); return ok }
	if !slices.ContainsFunc(w.m.Decide(message.Ticked{}, w.now), reports) {
		t.Error("nobody hears that its worker failed")
	}
}

// A node that follows only its own keys does not keep a whole snapshot that comes late.
func TestALateWholeSnapshotIsNotKept(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step",
		"b ready", "ok ready", "ok step", "ok read", "ok start")
	own := follow.ScopeOwn
	w.m.keeper.scope, w.m.seen.snap.Whole = &own, false
	w.m.keeper.nodes, w.m.seen.world.Count, w.m.keeper.lookAgain = 100, 100, w.now.Add(time.Hour)
	w.m.seen.world.Members = append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")},
		w.m.seen.world.Members...)
	w.rev++
	w.see(w.copy(), false)
	if w.m.seen.snap.Whole {
		t.Error("it plans by a picture that nothing makes newer")
	}
}

// What an agent keeps about a node is dropped when the node is gone.
func TestWhatIsRememberedDoesNotGrow(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step",
		"b ready", "ok ready", "ok step", "ok read", "ok start")
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
	for what, x := range map[string]any{"detection": m.peers, "outbox": m.out} {
		held := reflect.ValueOf(x).Elem()
		for i := range held.NumField() {
			name, f := held.Type().Field(i).Name, held.Field(i)
			if f.Kind() == reflect.Map && f.Len() > 5 && name != "busy" { // dials are not answered here
				t.Errorf("%s.%s: %d after 30 lives of b", what, name, f.Len())
			}
		}
	}
	evidence := reflect.ValueOf(m.peers).Elem().FieldByName("evidence")
	if n := max(evidence.FieldByName("Absent").Len(), evidence.FieldByName("Answers").Len()); n > 5 {
		t.Errorf("evidence: %d after 30 lives of b", n)
	}
}

// The node follows everything while its record may be in the store, and no longer.
func TestNodeWithoutRecordsFollowsItsOwn(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
		"ok start", "heard b silent", "ok suspect", "heard b again")
	m := w.m
	world := *m.seen.world
	m.keeper.nodes, m.seen.world = 100, &world
	world.Members = append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")}, world.Members...)
	scope := func() follow.Scope {
		m.follow()
		return *m.keeper.scope
	}
	m.keeper.lookAgain = w.now.Add(time.Hour)
	if len(m.peers.Suspects()) > 0 || len(m.seen.snap.Suspects) != 1 || scope() != follow.ScopeAll {
		t.Errorf("its record is in the store, %v, and it does not look there", m.seen.snap.Suspects)
	}
	record := m.seen.snap.Suspects[0].Rev
	m.seen.snap.Suspects, m.seen.snap.Rev = nil, record-1
	if scope() != follow.ScopeAll {
		t.Error("an older picture, without the record, is taken for the end of it")
	}
	m.seen.snap.Rev = record
	if scope() != follow.ScopeOwn {
		t.Error("its record is gone, and it goes on following everything")
	}
}

// A job that cannot be decoded counts as a store that does not answer. Nothing ends, and successful
// renewals do not hide it.
func TestUnreadableJobIsAStoreThatIsAway(t *testing.T) {
	for _, kind := range []error{schema.ErrNewerFormat, schema.ErrBadRecord} {
		w := replayed(t, "job 1", "enters", "a joins")
		w.m.Decide(message.StoreRead{Update: follow.Update{Err: fmt.Errorf("read: %w", kind)}}, w.now)
		w.m.Decide(message.Renewed{Lease: w.m.self.node.Lease, Sent: w.now}, w.now)
		if w.m.over != nil || w.m.seen.awaySince.IsZero() || w.m.seen.unreadable == nil {
			t.Errorf("%v: over %+v, away since %v", kind, w.m.over, w.m.seen.awaySince)
		}
	}
}

// A state in memory from before a rollback is given up, even if the node learns of the rollback
// only with a later generation.
func TestStatesOfBeforeARollbackAreGivenUp(t *testing.T) {
	for _, x := range []struct {
		rollback schema.Generation
		stays    bool
	}{{0, true}, {1, true}, {2, false}, {3, false}} {
		w := replayed(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step",
			"ok read", "ok start", "workers can stay", "proposed 3: a c", "unseen")
		w.s.World.Rollback = x.rollback
		done := w.m.Decide(message.StoreRead{Update: follow.Update{Snapshot: w.copy()}}, w.now)
		stays := slices.ContainsFunc(done,
			func(a message.Action) bool { _, ok := a.(message.PauseWorkers); return ok })
		if stays != x.stays {
			t.Errorf("after a rollback in generation %d the workers of generation 1 stay: %v, want %v",
				x.rollback, stays, x.stays)
		}
	}
}

// Workers that wait for their first World have no state to give up, so they get the World of a
// rollback.
func TestWorkersThatWaitOutlastARollback(t *testing.T) {
	w := replayed(t, "job 3 min 2 warm", "b joins", "c joins", "proposed 1: b c", "runs", "enters",
		"ok start", "workers can stay", "workers left without", "ok warm", "proposed 2: b c a", "unseen")
	w.s.World.Rollback = 2
	done := w.m.Decide(message.StoreRead{Update: follow.Update{Snapshot: w.copy()}}, w.now)
	for _, a := range done {
		if a, ended := a.(message.HaltWorkers); ended {
			t.Errorf("the workers of generation %d are ended", a.Generation)
		}
	}
	i := slices.IndexFunc(done, func(a message.Action) bool { _, ok := a.(message.GetReady); return ok })
	if i < 0 || !done[i].(message.GetReady).InMemory {
		t.Errorf("not ready with the state of another member: %v", done)
	}
}

// A state in memory that is older than the checkpoint of the next World does not replace the
// checkpoint. The rank that saved the checkpoint had finished a step in which others were
// interrupted, and is lost.
func TestStatesThatAreOlderThanTheCheckpoint(t *testing.T) {
	for _, x := range []struct {
		held     string
		resume   *rendezvous.Resume
		inMemory bool
	}{
		{"7", nil, true},
		{"without", nil, false},
		{"7", &rendezvous.Resume{Number: 1}, true}, // its step is not known
		{"7", &rendezvous.Resume{Number: 1, Step: new(int64(6))}, true},
		{"7", &rendezvous.Resume{Number: 1, Step: new(int64(7))}, true},
		{"7", &rendezvous.Resume{Number: 1, Step: new(int64(8))}, false},
	} {
		w := replayed(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step",
			"ok read", "ok start", "workers can stay", "proposed 2: a c", "unseen")
		w.s.World.Resume = x.resume
		w.m.Decide(message.StoreRead{Update: follow.Update{Snapshot: w.copy()}}, w.now)
		w.m.Decide(message.Paused{Generation: 1, Held: heldStep(x.held)}, w.now)
		done := w.m.Decide(message.Closed{Generation: 1}, w.now)
		i := slices.IndexFunc(done, func(a message.Action) bool { _, ok := a.(message.GetReady); return ok })
		if i < 0 {
			t.Fatalf("held %s: not ready: %v", x.held, done)
		}
		if got := done[i].(message.GetReady).InMemory; got != x.inMemory {
			t.Errorf("held %s, checkpoint %+v: in memory %v, want %v", x.held, x.resume, got, x.inMemory)
		}
	}
}
