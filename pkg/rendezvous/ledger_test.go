package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/google/go-cmp/cmp"
)

// books returns the ledger of a step.
func books(step plan.Step) rendezvous.Ledger {
	switch s := step.(type) {
	case plan.Propose:
		return s.World.Ledger
	case plan.Hold:
		return s.Ledger
	case plan.End:
		return s.Ledger
	}
	return rendezvous.Ledger{}
}

// running is generation 2 of two nodes and a spare, which runs for a second and has this ledger.
func running(l rendezvous.Ledger, facts ...fact) *situation {
	return given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
		append([]fact{generation(2), ledger(l), ran(time.Second)}, facts...)...)
}

// noSpare takes the spare of running away.
func noSpare(x *situation) { x.gone("c") }

// backingOff is generation 2 of a and b, which failed and spent a restart. One second of its three
// seconds of back-off is left.
func backingOff(used int, facts ...fact) *situation {
	x := given(aJob(2).here("a", "b", "c").world(rendezvous.Waiting, "a", "b"), generation(2),
		since(2*time.Second), ledger(rendezvous.Ledger{Used: used, Charged: 2}))
	x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(3 * time.Second),
		Cause: rendezvous.CauseWorkerFailed})
	closed(x)
	for _, f := range facts {
		f(x)
	}
	return x
}

// closed makes the Hold settle the ledger.
func closed(x *situation) { x.World.Ledger.Closed = x.World.Generation }

// Each failure waits longer than the one before, until no restart is left. Then the job ends with
// the exit code of the worker.
func TestBackoff(t *testing.T) {
	var l rendezvous.Ledger
	for i, want := range []string{
		"propose 3 (worker-failed): a b; the failure spent a restart",
		"hold (backoff) 1s; the failure spent a restart",
		"hold (backoff) 2s; the failure spent a restart",
		"hold (backoff) 4s; the failure spent a restart",
		"hold (backoff) 8s; the failure spent a restart",
		"hold (backoff) 16s; the failure spent a restart",
		"hold (backoff) 30s; the failure spent a restart",
		"hold (backoff) 30s; the failure spent a restart",
		"failed 7 (worker); the failure spent nothing",
	} {
		step := running(l, failure("b", 7, time.Second), noSpare,
			rule(func(r *rendezvous.Rules) { r.MaxRestarts = 8 })).plan()
		if got := stepText(step); got != want {
			t.Fatalf("failure %d:\n got %s\nwant %s", i+1, got, want)
		}
		l = books(step)
		if l.Closed != 2 {
			t.Fatalf("failure %d: the books of generation 2 are open", i+1)
		}
		l.Closed = 0 // the next failure is of another generation
		if l.Used != min(i+1, 8) || l.Ran != i+1 || l.LastFailure == "" {
			t.Fatalf("failure %d: books %+v", i+1, l)
		}
	}
}

func TestLedger(t *testing.T) {
	three := rendezvous.Ledger{Used: 3}
	const spent, nothing, collateral = "; the failure spent a restart", "; the failure spent nothing",
		"; the failure is collateral"
	for _, c := range []struct {
		name   string
		moment *situation
		want   string
		books  rendezvous.Ledger
	}{
		{"no restarts are left",
			running(three, failure("b", 7, time.Second), noSpare),
			"failed 7 (worker)" + nothing, rendezvous.Ledger{Used: 3, Ran: 1}},
		{"there never were any", running(rendezvous.Ledger{}, failure("b", 7, time.Second),
			rule(func(r *rendezvous.Rules) { r.MaxRestarts = 0 })), "failed 7 (worker)" + nothing,
			rendezvous.Ledger{Ran: 1}},
		{"ten minutes of running give all back",
			running(three, failure("b", 7, time.Second), ran(10*time.Minute)),
			"propose 3 (worker-failed): a b" + spent, rendezvous.Ledger{Used: 1, Ran: 1, Charged: 2}},
		{"a second less does not",
			running(three, failure("b", 7, time.Second), ran(10*time.Minute-time.Second), noSpare),
			"failed 7 (worker)" + nothing, rendezvous.Ledger{Used: 3, Ran: 1}},
		{"a node was lost: its victim spends nothing", running(three, failure("b", 7, 0), crashed("a")),
			"propose 3 (node-lost): c b; evicts a; lost a" + collateral,
			rendezvous.Ledger{Used: 3, Lost: 1, Ran: 1, NoProgress: 1}},
		{"a lost node alone spends nothing",
			running(three, crashed("a")),
			"propose 3 (node-lost): c b; evicts a; lost a", rendezvous.Ledger{Used: 3, Lost: 1, Ran: 1}},
		{"a node left in a hurry: the failure of the other is its victim",
			running(three, failure("b", 7, 0), wentAway("a")), "propose 3 (node-lost): c b; without a" +
				collateral,
			rendezvous.Ledger{Used: 3, Ran: 1, NoProgress: 1}},
		{"it left after its own worker had failed",
			running(rendezvous.Ledger{}, failure("b", 7, 0), wentAway("b")),
			"propose 3 (worker-failed): a c; without b" + spent,
			rendezvous.Ledger{Used: 1, Ran: 1, Charged: 2}},
		{"it left after it was through",
			given(aJob(2).here("b").world(rendezvous.Finishing, "a", "b"), generation(2),
				ran(time.Second), ended("a", 0), wentAway("a"), ended("b", 7), failure("b", 7, time.Second),
				asksFor(1)),
			"propose 3 (worker-failed): b; without a" + spent,
			rendezvous.Ledger{Used: 1, Ran: 1, Charged: 2}},
		{"the failure was charged, and then a node says that it left in a hurry",
			given(aJob(2).here("b", "c").world(rendezvous.Forming, "a", "b"), generation(3), wentAway("a"),
				ledger(rendezvous.Ledger{Used: 2, Charged: 2})), "propose 4 (node-lost): c b; without a",
			rendezvous.Ledger{Used: 1}},
		{"the same in the back-off: nothing to back off from",
			backingOff(3, wentAway("a"), failure("b", 7, time.Second)),
			"propose 3 (node-lost): c b; without a",
			rendezvous.Ledger{Used: 2}},
		{"the same when it was given back already: once",
			given(aJob(2).here("b").world(rendezvous.Waiting, "a", "b"),
				generation(2), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("a"),
				failure("b", 7, time.Second),
				ledger(rendezvous.Ledger{Used: 2}), closed), "nothing", rendezvous.Ledger{}},
		{"it leaves in the back-off when all have stopped long since",
			backingOff(3, wentAway("a"), failure("b", 7, 2*time.Second)), "nothing for 1s",
			rendezvous.Ledger{}},
		{"a node is lost in the back-off: the failure was its victim, and there is a spare",
			backingOff(3, crashed("a")), "propose 3 (node-lost): c b; evicts a; lost a",
			rendezvous.Ledger{Used: 2, Lost: 1}},
		{"a node is lost in the back-off, and there is no other node",
			backingOff(3, crashed("a"), func(x *situation) { x.gone("c") }), "hold (nodes-missing); lost a",
			rendezvous.Ledger{Used: 2, Lost: 1}},
		{"a node is lost in the back-off, another is in doubt: the back-off is over all the same",
			backingOff(3, crashed("a"), doubted("b")), "hold (nodes-missing); lost a",
			rendezvous.Ledger{Used: 2, Lost: 1}},
		{"a failure was charged, and nodes were missing: a loss in that Hold gives it back",
			given(aJob(3).here("a", "b").world(rendezvous.Waiting, "a", "b", "c"),
				holding(rendezvous.NodesMissing, rendezvous.CauseWorkerFailed), generation(2), crashed("b"),
				vanished("c"),
				func(x *situation) { x.World.ReportedLost = []incarnation{ref("c").Incarnation} },
				ledger(rendezvous.Ledger{Used: 1, Charged: 2, Lost: 1}), closed),
			"hold (nodes-missing); lost b",
			rendezvous.Ledger{Lost: 2}},
		{"the failure of the generation before is charged, and this one held before it ran",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Waiting, "a", "b"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), generation(3), crashed("b"),
				ledger(rendezvous.Ledger{Used: 2, Charged: 2}), closed),
			"propose 4 (node-lost): a c; evicts b; lost b",
			rendezvous.Ledger{Used: 1, Lost: 1}},
		{"this one ran: the failure before it stays charged",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Waiting, "a", "b"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), generation(3), crashed("b"),
				ledger(rendezvous.Ledger{Used: 2, Charged: 2}), closed,
				func(x *situation) { x.World.Master = &rendezvous.Master{} }),
			"propose 4 (node-lost): a c; evicts b; lost b", rendezvous.Ledger{Used: 2, Charged: 2, Lost: 1}},
		{"a lost node that left is not counted as lost",
			running(three, wentAway("a")),
			"propose 3 (node-lost): c b; without a", rendezvous.Ledger{Used: 3, Ran: 1}},
		{"101 asks for another generation", running(three, failure("b", 101, time.Second)),
			"propose 3 (asked): a b" +
				nothing, rendezvous.Ledger{Used: 3, Ran: 1, NoProgress: 1}},
		{"102 as well",
			running(three, failure("b", 102, time.Second)),
			"propose 3 (asked): a b" + nothing, rendezvous.Ledger{Used: 3, Ran: 1, NoProgress: 1}},
		{"103 does not",
			running(three, failure("b", 103, time.Second), noSpare),
			"failed 103 (worker)" + nothing, rendezvous.Ledger{Used: 3, Ran: 1}},
		{"the fifth generation without progress is the last", running(rendezvous.Ledger{NoProgress: 4},
			failure("b", 101, time.Second)), "failed 93 (elastic)" + nothing,
			rendezvous.Ledger{NoProgress: 5, Ran: 1}},
		{"the fourth is not",
			running(rendezvous.Ledger{NoProgress: 3}, failure("b", 101, time.Second)),
			"propose 3 (asked): a b" + nothing, rendezvous.Ledger{NoProgress: 4, Ran: 1}},
		{"so do victims of lost nodes",
			running(rendezvous.Ledger{NoProgress: 4}, failure("b", 7, 0), crashed("a")),
			"failed 93 (elastic); lost a" + collateral, rendezvous.Ledger{NoProgress: 5, Ran: 1, Lost: 1}},
		{"a commit is progress",
			running(rendezvous.Ledger{NoProgress: 4}, failure("b", 101, time.Second), commit(2, "a", "b"),
				func(x *situation) { x.Head.Generation = 2 }),
			"propose 3 (asked): a b from 2" + nothing,
			rendezvous.Ledger{Ran: 1}},
		{"a commit of an earlier generation is not, also if it came late",
			running(rendezvous.Ledger{NoProgress: 4},
				failure("b", 101, time.Second), commit(2, "a", "b"),
				func(x *situation) { x.Head.Generation = 1 }), "failed 93 (elastic)" + nothing,
			rendezvous.Ledger{NoProgress: 5, Ran: 1}},
		{"a reported step is progress",
			running(rendezvous.Ledger{NoProgress: 4}, failure("b", 101, time.Second),
				func(x *situation) { x.Progress = &rendezvous.Progress{Step: new(int64(12))} }),
			"propose 3 (asked): a b" +
				nothing, rendezvous.Ledger{Ran: 1}},
		{"ten seconds of running are progress",
			running(rendezvous.Ledger{NoProgress: 4}, failure("b", 101, 0),
				ran(10*time.Second), func(x *situation) { x.m.FailedAt = noon.Add(-time.Second) }),
			"propose 3 (asked): a b" + nothing, rendezvous.Ledger{Ran: 1}},
		{"a second less is not",
			running(rendezvous.Ledger{NoProgress: 4}, failure("b", 101, time.Second), ran(9*time.Second)),
			"failed 93 (elastic)" + nothing, rendezvous.Ledger{NoProgress: 5, Ran: 1}},
		{"the failure was charged, and turns out to be the lost node's",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Forming, "a", "b"), generation(3),
				crashed("b"), ledger(rendezvous.Ledger{Used: 2, Charged: 2})),
			"propose 4 (node-lost): a c; evicts b; lost b",
			rendezvous.Ledger{Used: 1, Lost: 1}},
		{"a failure that was charged two generations ago does not",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Forming, "a", "b"), generation(3),
				crashed("b"), ledger(rendezvous.Ledger{Used: 2, Charged: 1})),
			"propose 4 (node-lost): a c; evicts b; lost b",
			rendezvous.Ledger{Used: 2, Charged: 1, Lost: 1}},
		{"a member asked all to save because it leaves: the next world closes the books",
			given(aJob(2).here("b", "c").world(rendezvous.Waiting, "a", "b"),
				savingFor(rendezvous.CauseDrain), savedBy("b"), wentAway("a"),
				ledger(rendezvous.Ledger{NoProgress: 2, Ran: 1})), "propose 2 (drain): c b; without a",
			rendezvous.Ledger{Ran: 2}},
		{"and counts it as one that ran, also if the keeper came since",
			given(aJob(2).here("b", "c").world(rendezvous.Waiting, "a", "b"),
				savingFor(rendezvous.CauseDrain), savedBy("b"), wentAway("a"),
				func(x *situation) { x.m.RunningSince, x.World.Master = time.Time{}, &rendezvous.Master{} }),
			"propose 2 (drain): c b; without a", rendezvous.Ledger{Ran: 1}},
		{"a failure was reported just before: it is not forgotten",
			given(aJob(2).here("b", "c").world(rendezvous.Waiting, "a", "b"),
				savingFor(rendezvous.CauseDrain), savedBy("b"), wentAway("a"),
				failure("b", 7, time.Minute), ledger(rendezvous.Ledger{Ran: 1})),
			"propose 2 (worker-failed): c b; without a" + spent,
			rendezvous.Ledger{Used: 1, Charged: 1, Ran: 2}},
		{"a failure was reported just before, and it was one too many",
			given(aJob(2).here("b", "c").world(rendezvous.Waiting, "a", "b"),
				savingFor(rendezvous.CauseDrain), savedBy("b"), wentAway("a"),
				failure("b", 7, time.Minute), ledger(rendezvous.Ledger{Used: 3, Ran: 1})),
			"failed 7 (worker)" +
				nothing,
			rendezvous.Ledger{Used: 3, Ran: 2}},
		{"all ended with 0 while they were asked to save: the generation ran once",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"),
				savingFor(rendezvous.CauseScale), ended("a", 0), ended("b", 0),
				ledger(rendezvous.Ledger{Ran: 3, Closed: 1})), "done 0 (worker)", rendezvous.Ledger{Ran: 3}},
		{"all ended with 0 while they were asked to stop: it is counted",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"), asksToStop,
				savingFor(rendezvous.CauseScale), ended("a", 0), ended("b", 0),
				ledger(rendezvous.Ledger{Ran: 3})), "done 0 (worker)", rendezvous.Ledger{Ran: 4}},
		{"a Hold closed the books: the next world takes them over as they are",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"), generation(3),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost),
				ledger(rendezvous.Ledger{Used: 2, Ran: 2, Lost: 1}), closed, failure("b", 7, time.Minute)),
			"propose 4 (node-lost): a b", rendezvous.Ledger{Used: 2, Ran: 2, Lost: 1}},
		{"a loss in the Hold is counted",
			given(aJob(3).here("a", "b").world(rendezvous.Waiting, "a", "b", "c"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), crashed("b"), vanished("c"),
				func(x *situation) { x.World.ReportedLost = []incarnation{ref("c").Incarnation} },
				ledger(rendezvous.Ledger{Lost: 1}), closed), "hold (nodes-missing); lost b",
			rendezvous.Ledger{Lost: 2}},
		{"a loss in the Hold is counted, also when another node is at hand",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Waiting, "a", "b"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), crashed("b"),
				ledger(rendezvous.Ledger{Lost: 1}), closed), "propose 2 (node-lost): a c; evicts b; lost b",
			rendezvous.Ledger{Lost: 2}},
		{"a node that is dropped with the change of another is counted",
			given(aJob(3).here("a", "b", "c", "d", "e").world(rendezvous.Running, "a", "b", "c"),
				generation(2), ran(time.Second), cutOff("b", 10*time.Second), crashed("c")),
			"propose 3 (node-lost): a d e; evicts c; without b; lost b c",
			rendezvous.Ledger{Lost: 2, Ran: 1}},
		{"a node that left after its workers were through was not lost",
			given(aJob(2).here("a").world(rendezvous.Finishing, "a", "b"), ended("a", 0), ended("b", 0),
				wentAway("b")),
			"done 0 (worker)", rendezvous.Ledger{Ran: 1}},
		{"a stop tells of the lost one, too",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), crashed("b"), asksToStop),
			"stopped 93 (operator); lost b", rendezvous.Ledger{Lost: 1}},
		{"the stop of a new attempt takes nothing over",
			given(aJob(2).here("a").world(rendezvous.Failed, "a", "b"),
				ledger(rendezvous.Ledger{Used: 3, Lost: 2}), newAttempt, asksToStop),
			"stopped 93 (operator)", rendezvous.Ledger{}},
		{"a planned change spends nothing",
			running(three, asksFor(1)), "hold (saving) planned, scale", rendezvous.Ledger{Used: 3, Ran: 1}},
		{"a new attempt has new books", given(aJob(2).here("a", "b").world(rendezvous.Failed, "a", "b"),
			ledger(rendezvous.Ledger{Used: 3, Lost: 2, Ran: 9}), newAttempt), "propose 2 (attempt): a b",
			rendezvous.Ledger{}},
		{"all done", given(aJob(2).here("a", "b").world(rendezvous.Finishing, "a", "b"), ended("a", 0),
			ended("b", 0), ledger(rendezvous.Ledger{Used: 1, Ran: 3, Lost: 1})), "done 0 (worker)",
			rendezvous.Ledger{Used: 1, Ran: 4, Lost: 1}},
	} {
		step := c.moment.plan()
		got := books(step)
		got.LastFailure, got.Closed = "", 0
		got.Churn, got.Reports, got.Nodes = 0, false, nil // TestQuarantine and TestChurn look at these
		if stepText(step) != c.want || !cmp.Equal(got, c.books) {
			t.Errorf("%s:\n got %s %+v\nwant %s %+v", c.name, stepText(step), got, c.want, c.books)
		}
	}
}

// The end of a failed job blames the worker: its code, or its signal.
func TestOutcomeOfAFailure(t *testing.T) {
	x := running(rendezvous.Ledger{Used: 3}, failure("b", 137, time.Second), noSpare)
	x.Failure.Signal, x.Failure.LocalRank = "SIGKILL", 0
	end, ok := x.plan().(plan.End)
	if !ok {
		t.Fatal("it does not end")
	}
	o := end.Outcome
	if o.Code != 137 || o.Source != "worker" || *o.Node != "b" || *o.Rank != 1 || *o.LocalRank != 0 ||
		o.ExitCode != nil || *o.Signal != "SIGKILL" || o.Why != rendezvous.RestartsUsed {
		t.Errorf("%+v", o)
	}
	x.Failure.Signal, x.Failure.Code = "", 9
	o = x.plan().(plan.End).Outcome
	if o.Code != 9 || *o.ExitCode != 9 || o.Signal != nil {
		t.Errorf("%+v", o)
	}
	// 128+N stands for a signal only where one was seen: 101 by a signal asks for nothing.
	if (rendezvous.Failure{Code: 101, Signal: "SIGKILL"}).AsksForRestart() ||
		!(rendezvous.Failure{Code: 101}).AsksForRestart() {
		t.Error("a worker that asks for another generation exits with 101 of itself")
	}
}

// Marks are what one agent saw and when; they begin anew with each generation.
func TestMarks(t *testing.T) {
	var m plan.Observed
	at := func(sec int) time.Time { return noon.Add(time.Duration(sec) * time.Second) }
	see := func(sec int, x *situation) {
		t.Helper()
		m.Update(&x.Snapshot, x.view(), at(sec))
	}
	check := func(what string, got time.Time, sec int) {
		t.Helper()
		want := at(sec)
		if sec < 0 {
			want = time.Time{}
		}
		if !got.Equal(want) {
			t.Errorf("%s: %s, want %s", what, got.Sub(noon), want.Sub(noon))
		}
	}
	see(0, given(aRange(2, 4).here("a")))
	check("one is below MIN: no last call", m.LastCallSince, -1)
	see(1, given(aRange(2, 4).here("a", "b")))
	see(2, given(aRange(2, 4).here("a", "b", "c")))
	check("no node restarts the last call", m.LastCallSince, 1)
	check("a node came: something moved", m.ChangedAt, 2)
	see(3, given(aRange(2, 4).here("a")))
	check("below MIN again", m.LastCallSince, -1)
	see(4, given(aRange(2, 4).here("a", "b", "c", "d")))
	check("all are here: no call", m.LastCallSince, -1)

	forming := func(facts ...fact) *situation {
		return given(aRange(2, 4).here("a", "b").world(rendezvous.Forming, "a", "b"), facts...)
	}
	see(10, forming())
	see(11, forming())
	check("the phase", m.PhaseSince, 10)
	see(12, given(aRange(2, 4).here("a", "b").world(rendezvous.Running, "a", "b")))
	check("it runs", m.RunningSince, 12)
	check("no other node is here: no call while it runs", m.LastCallSince, -1)
	see(13, given(aRange(2, 4).here("a", "b", "c").world(rendezvous.Running, "a", "b")))
	check("one more is here", m.LastCallSince, 13)
	see(14, given(aRange(2, 4).here("a", "b").world(rendezvous.Running, "a", "b"), doubted("b"),
		failure("a", 1, 0)))
	see(15, given(aRange(2, 4).here("a", "b", "c").world(rendezvous.Running, "a", "b"), doubted("a"),
		failure("a", 1, 0)))
	check("a node has been suspected since", m.SuspectSince, 14)
	check("the failure was reported", m.FailedAt, 14)
	see(16, given(aRange(2, 4).here("a", "b").world(rendezvous.Waiting, "a", "b"),
		holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)))
	check("no node is suspected", m.SuspectSince, -1)
	check("it left running", m.StoppedAt, 16)
	check("and ran since", m.RunningSince, 12)
	see(20, forming(generation(2), doubted("b")))
	see(21, forming(generation(2), doubted("b")))
	check("a new generation has not run", m.RunningSince, -1)
	check("nor failed", m.FailedAt, -1)
	check("nor ended", m.StoppedAt, -1)
	check("its phase is its own", m.PhaseSince, 20)
	see(22, forming(generation(3), doubted("b")))
	check("a doubt outlives a generation", m.SuspectSince, 20)
}
