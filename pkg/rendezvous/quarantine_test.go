package rendezvous_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// otherProgram registers a node with another program than the job's.
func otherProgram(node string) fact {
	return func(x *situation) {
		x.Job.Origin = rendezvous.NewOrigin("ada", "lab1", []string{"python", "train.py"})
		for i := range x.Nodes {
			x.Nodes[i].Program = x.Job.Origin.Digest()
		}
		x.Node(node).Program = "other"
	}
}

// inDoubt makes the record of its machine speak against a node.
func inDoubt(node string) fact {
	return func(x *situation) { x.Node(node).Doubt = "this machine was left out of 2 jobs" }
}

// inQuarantine puts a node into quarantine by its record.
func inQuarantine(r rendezvous.NodeRecord) fact {
	return func(x *situation) {
		r.Since, r.Quarantine, r.Text = x.World.Generation, rendezvous.Seconds(30*time.Second),
			"it disturbed the job"
		x.World.Ledger.Nodes = append(x.World.Ledger.Nodes, r)
	}
}

// records is the text of the node records in the ledger of a step.
func records(step plan.Step) (text string) {
	for _, r := range books(step).Nodes {
		text += fmt.Sprintf("%s: lost %d, failed %d", r.Node, r.Losses, r.Failures)
		if r.Quarantine > 0 {
			text += fmt.Sprintf(", out for %s", time.Duration(r.Quarantine))
		}
		text += "; "
	}
	return text
}

// A node that disturbs the job is put into quarantine, and the others go on without it.
func TestQuarantine(t *testing.T) {
	range3 := func() *jobSnapshot {
		return aRange(1, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b")
	}
	exact := func() *jobSnapshot { return aJob(2).here("a", "b").world(rendezvous.Running, "a", "b") }
	short := ran(2 * time.Second)
	// failed is a ledger with a failure of b at a step
	failed := func(step int64, change func(*rendezvous.Ledger)) fact {
		l := rendezvous.Ledger{Used: 1, Reports: true,
			Nodes: []rendezvous.NodeRecord{{Node: "b", Failures: 1, Row: 1, Used: 1, Step: &step}}}
		if change != nil {
			change(&l)
		}
		return ledger(l)
	}
	reports := func(step int64) fact {
		return func(x *situation) {
			x.Progress = &rendezvous.Progress{Generation: x.World.Generation, Step: &step}
		}
	}
	resumes := func(step int64) fact {
		return func(x *situation) { x.World.Resume = &rendezvous.Resume{Number: 1, Step: &step} }
	}
	const goesOn, restarts = "propose 2 (worker-failed): a c; leaving b; the failure spent nothing",
		"propose 2 (worker-failed): a b c; the failure spent a restart"
	const again = "hold (backoff) 1s; the failure spent a restart"
	for _, c := range []struct {
		name          string
		x             *situation
		want, records string
	}{
		{"a first failure spends a restart", given(range3(), short, failure("b", 2, time.Second)), restarts,
			"b: lost 0, failed 1; "},
		{"a second one without a step between: the others go on, and the restart is given back",
			given(range3(), short, failure("b", 2, time.Second), failed(7, nil), reports(7)), goesOn,
			"b: lost 0, failed 2, out for 1m0s; "},
		{"no step was ever known",
			given(range3(), short, failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.Nodes[0].Step, l.Reports = nil, false
			})), goesOn, "b: lost 0, failed 2, out for 1m0s; "},
		{"a commit of the join is no step of the generation",
			given(range3(), short, failure("b", 2, time.Second), failed(7, nil), commit(1, "a", "c"),
				func(x *situation) {
					x.Head.Step, x.Head.Generation = new(int64(9)), 1
					x.World.Resume = &rendezvous.Resume{Number: 1, Step: new(int64(7))}
					generation(2)(x)
				}), "propose 3 (worker-failed): a c from 1; leaving b; the failure spent nothing",
			"b: lost 0, failed 2, out for 1m0s; "},
		{"a step was made between", given(range3(), short, failure("b", 2, time.Second), failed(7, nil),
			reports(8)), again, "b: lost 0, failed 2; "},
		{"no step is reported, and the node trained for half a minute",
			given(range3(), ran(30*time.Second), failure("b", 2, 0), failed(7, func(l *rendezvous.Ledger) {
				l.Nodes[0].Step, l.Reports = nil, false
			}), func(x *situation) { x.m.FailedAt = noon.Add(-time.Second) }), again, "b: lost 0, failed 2; "},
		{"steps are reported: half a minute says nothing",
			given(range3(), ran(30*time.Second), failure("b", 2, 0), failed(7, nil),
				func(x *situation) { x.m.FailedAt = noon.Add(-time.Second) }), goesOn,
			"b: lost 0, failed 2, out for 1m0s; "},
		{"another node failed between", given(range3(), short, failure("b", 2, time.Second),
			failed(7, func(l *rendezvous.Ledger) {
				l.Used = 2
				l.Nodes = append([]rendezvous.NodeRecord{{Node: "a", Failures: 1, Row: 1, Used: 1}}, l.Nodes...)
			}), reports(7)), goesOn, "a: lost 0, failed 1; b: lost 0, failed 2, out for 1m0s; "},
		{"it was left out before: at once, and for twice as long",
			given(range3(), short, failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.Nodes[0].Outs = 1
			}), reports(90)), goesOn, "b: lost 0, failed 2, out for 2m0s; "},
		{"np does not allow it: a restart is used",
			given(exact(), short, failure("b", 2, time.Second), failed(7, nil), reports(7)), again,
			"b: lost 0, failed 2; "},
		{"np does not allow it, and no restart is left",
			given(exact(), short, failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.Used, l.Nodes[0].Used = 3, 3
			}), reports(7)), "failed 2 (worker); the failure spent nothing", "b: lost 0, failed 2; "},
		{"np does not allow it, and it came later and made no step: the job waits for another node",
			given(exact(), short, failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.Unproven = []string{"b"}
			}), resumes(7)), "hold (nodes-missing); the failure spent nothing",
			"b: lost 0, failed 2, out for 1m0s; "},
		{"but one that was there before failed, too", given(exact(), short, failure("b", 2, time.Second),
			failed(7, func(l *rendezvous.Ledger) { l.Unproven = []string{"b"} }), resumes(7),
			func(x *situation) { x.Failure.Others = []rendezvous.CollateralEnd{{Node: "a"}} }), again,
			"b: lost 0, failed 2; "},
		{"it made a step", given(exact(), short, failure("b", 2, time.Second),
			failed(7, func(l *rendezvous.Ledger) { l.Unproven = []string{"b"} }), resumes(7), reports(8)),
			again, "b: lost 0, failed 2; "},
		{"a spare takes its place",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"), short,
				failure("b", 2, time.Second), failed(7, nil), reports(7)), goesOn,
			"b: lost 0, failed 2, out for 1m0s; "},
		{"a spare whose machine is in doubt takes its place",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"), inDoubt("c"), short,
				failure("b", 2, time.Second), failed(7, nil), reports(7)), goesOn,
			"b: lost 0, failed 2, out for 1m0s; "},
		{"and so does one that was only lost often, instead of the end of the job",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"), short,
				failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
					l.Used, l.Nodes[0].Used = 3, 3
				}), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2}), reports(7)), goesOn,
			"b: lost 0, failed 2, out for 1m0s; c: lost 2, failed 0; "},
		{"it used up the budget: the job goes on without it",
			given(range3(), short, failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.Used, l.Nodes[0].Used = 3, 2
			}), reports(90)), goesOn, "b: lost 0, failed 2, out for 1m0s; "},
		{"all nodes used it up", given(range3(), short, failure("b", 2, time.Second),
			failed(7, func(l *rendezvous.Ledger) { l.Used = 3 }), reports(90)),
			"failed 2 (worker); the failure spent nothing", "b: lost 0, failed 2; "},
		{"others used it up, and this one makes no step", given(range3(), short, failure("b", 2, time.Second),
			ledger(rendezvous.Ledger{Used: 3, Reports: true})), goesOn, "b: lost 0, failed 1, out for 1m0s; "},
		{"the job has no restarts", given(range3(), short, failure("b", 2, time.Second),
			rule(func(r *rendezvous.Rules) { r.MaxRestarts = 0 })),
			"failed 2 (worker); the failure spent nothing", "b: lost 0, failed 1; "},
		{"three nodes were left out, and training gets no further", given(range3(), short,
			failure("b", 2, time.Second), failed(7, func(l *rendezvous.Ledger) {
				l.LeftOut, l.LeftOutAt = 3, new(int64(7))
			}), reports(7)), again, "b: lost 0, failed 2; "},
		{"it got further since", given(range3(), short,
			failure("b", 2, time.Second), failed(8, func(l *rendezvous.Ledger) {
				l.LeftOut, l.LeftOutAt = 3, new(int64(7))
			}), reports(8)), goesOn, "b: lost 0, failed 2, out for 1m0s; "},
		{"a victim is not charged", given(range3(), short, failure("b", 2, 2*time.Second), isVictim,
			failed(7, nil), reports(7)), again, "b: lost 0, failed 1; "},
		{"all wait for its worker", given(range3(), short, failure("b", 1, time.Second), hangs, failed(7, nil),
			reports(7)), goesOn, "b: lost 0, failed 2, out for 1m0s; "},
		{"all hang, and no rank differs: nobody is charged", given(range3(), short,
			failure("b", 1, time.Second), hangs, func(x *situation) { x.Failure.NotKnown = true },
			failed(7, nil), reports(7)), again, "b: lost 0, failed 1; "},
		{"it asks for a new generation", given(range3(), short, failure("b", 101, time.Second), failed(7, nil),
			reports(7)), "propose 2 (asked): a b c; the failure spent nothing", "b: lost 0, failed 1; "},
		{"a first loss is only counted",
			given(range3(), short, crashed("b")),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; "},
		{"lost again within a minute after it came back",
			given(range3(), short, crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 1}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 2, failed 0, out for 30s; "},
		{"lost again later",
			given(range3(), ran(time.Minute), crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 1}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 2, failed 0; "},
		{"a fourth time out lasts longer",
			given(range3(), short, crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 4, Outs: 3}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 5, failed 0, out for 4m0s; "},
		{"ten minutes of running forgive",
			given(range3(), ran(10*time.Minute), crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 5, Outs: 3}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; "},
		{"a node that left was not lost",
			given(range3(), short, wentAway("b")), "propose 2 (node-lost): a c; without b", ""},
		{"a node in quarantine makes no world grow",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2})), "nothing", ""},
		{"nor does it take the place of a lost one",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2}), short, crashed("b")),
			"propose 2 (node-lost): a; evicts b; lost b",
			"b: lost 1, failed 0; c: lost 2, failed 0, out for 30s; "},
		{"unless there would be no world: it was only lost",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
				inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2}), short, crashed("b")),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; c: lost 2, failed 0; "},
		{"its workers fail: the job waits for its time",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
				inQuarantine(rendezvous.NodeRecord{Node: "c", Failures: 2, Failing: true}), short, crashed("b")),
			"hold (nodes-missing); lost b",
			"b: lost 1, failed 0; c: lost 0, failed 2, out for 30s; "},
		{"the operator admits it", given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2}),
			func(x *situation) { x.Wish.Admit = []rendezvous.Admit{{Node: "c", Generation: 1}} }),
			"hold (saving) planned, join", "c: lost 2, failed 0, out for 30s; "},
		{"an admission of before does not count",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 2}),
				func(x *situation) { x.Wish.Admit = []rendezvous.Admit{{Node: "c", Generation: 0}} }),
			"nothing", ""},
		{"its machine is in doubt: it is a spare", given(range3(), inDoubt("c")), "nothing", ""},
		{"also in the first world", given(aRange(1, 3).here("a", "b", "c"), inDoubt("c"), call(time.Minute)),
			"propose 1 (first): a b", ""},
		{"unless there would be no world", given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
			inDoubt("c"), short, crashed("b")), "propose 2 (node-lost): a c; evicts b; lost b",
			"b: lost 1, failed 0; "},
		{"its machine is drained: no world has it",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"), inDoubt("c"),
				func(x *situation) { x.Node("c").Drained = true }, short, crashed("b")),
			"hold (nodes-missing); lost b", "b: lost 1, failed 0; "},
		{"it was admitted", given(range3(), inDoubt("c"), func(x *situation) {
			x.Wish.Admit = []rendezvous.Admit{{Node: "c", Incarnation: ref("c").Incarnation}}
		}), "hold (saving) planned, join", ""},
		{"an earlier agent of it was admitted", given(range3(), inDoubt("c"), func(x *situation) {
			x.Wish.Admit = []rendezvous.Admit{{Node: "c", Incarnation: "older"}}
		}), "nothing", ""},
		{"a new attempt knows of no quarantine",
			given(aRange(1, 2).here("a", "b").world(rendezvous.Failed, "a"),
				inQuarantine(rendezvous.NodeRecord{Node: "b", Failures: 2, Failing: true}), newAttempt),
			"propose 2 (attempt): a b", ""},
	} {
		step := c.x.plan()
		if got := stepText(step); got != c.want || records(step) != c.records {
			t.Errorf("%s:\n got %s | %s\nwant %s | %s", c.name, got, records(step), c.want, c.records)
		}
	}
}

// Members that came after the job had trained are listed until they make a step.
func TestNewcomersAreUnproven(t *testing.T) {
	trained := ledger(rendezvous.Ledger{Reports: true, Unproven: []string{"b"}})
	step := func(n int64) fact {
		return func(x *situation) {
			x.World.Resume = &rendezvous.Resume{Number: 1, Step: new(int64(7))}
			x.Progress = &rendezvous.Progress{Generation: x.World.Generation, Step: &n}
		}
	}
	four := func() *jobSnapshot {
		return aRange(1, 4).here("a", "b", "c", "d").world(rendezvous.Running, "a", "b", "c")
	}
	for _, c := range []struct {
		name string
		x    *situation
		want []string
	}{
		{"nobody trained yet", given(four(), crashed("c")), nil},
		{"one that comes, and one that made no step", given(four(), trained, step(7), crashed("c")),
			[]string{"b", "d"}},
		{"the other one made a step", given(four(), trained, step(8), crashed("c")), []string{"d"}},
		{"all are new", given(aJob(1).here("a", "b").world(rendezvous.Running, "a"), trained, step(8),
			crashed("a")), nil},
		{"a new attempt", given(aRange(1, 2).here("a", "b").world(rendezvous.Failed, "a"), trained,
			newAttempt), nil},
	} {
		next, ok := c.x.plan().(plan.Propose)
		if !ok || !slices.Equal(next.World.Ledger.Unproven, c.want) {
			t.Errorf("%s: %v, want %v (%s)", c.name, next.World.Ledger.Unproven, c.want, stepText(c.x.plan()))
		}
	}
}

// A checkpoint is distrusted if two nodes fail with it, or one that the job needs. The failures of one
// node that the job can do without say nothing about it.
func TestDistrust(t *testing.T) {
	resumed := func(x *situation) {
		commit(2, "a", "b")(x)
		x.Head.Step = new(int64(20))
		x.World.Resume = &rendezvous.Resume{Number: 2, Step: x.Head.Step, Manifest: x.Head.Manifest}
		older := checkpoint.Head{Number: 1, Manifest: checkpoint.Hash{1}, Step: new(int64(10))}
		x.History = []checkpoint.Head{older, x.Head}
	}
	died := func(node string) fact {
		return ledger(rendezvous.Ledger{Used: 1, Death: &rendezvous.Death{Node: node, Step: 20}})
	}
	wide := func() *jobSnapshot {
		return aRange(1, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b", "c")
	}
	exact := func() *jobSnapshot { return aJob(2).here("a", "b").world(rendezvous.Running, "a", "b") }
	for _, c := range []struct {
		name string
		job  *jobSnapshot
		died string
		want checkpoint.Number
	}{
		{"the same node twice", wide(), "b", 0},
		{"two nodes", wide(), "a", 1},
		{"the same node twice, and the job needs it", exact(), "b", 1},
	} {
		step := given(c.job, resumed, died(c.died), ran(time.Second), failure("b", 2, time.Second)).plan()
		back := books(step).Back
		if got := back != nil && back.To == 1; got != (c.want == 1) {
			t.Errorf("%s: %s, %+v", c.name, stepText(step), back)
		}
	}
}

// A node that is left out gives back the restarts that it used, and no others.
func TestRestartsAreGivenBack(t *testing.T) {
	step := given(aRange(1, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b"), ran(time.Second),
		failure("b", 2, time.Second), ledger(rendezvous.Ledger{Used: 3, Nodes: []rendezvous.NodeRecord{
			{Node: "a", Failures: 1, Row: 1, Used: 1}, {Node: "b", Failures: 2, Row: 1, Used: 2}}})).plan()
	if l := books(step); l.Used != 1 || l.Nodes[1].Used != 0 || l.LeftOut != 1 {
		t.Errorf("%s: %+v", stepText(step), l)
	}
}

// The planning agent counts a quarantine by its own clock, from when it first saw it.
func TestQuarantineEnds(t *testing.T) {
	lost, failed := rendezvous.NodeRecord{Node: "c", Losses: 3},
		rendezvous.NodeRecord{Node: "c", Failures: 2, Failing: true}
	trains := func() *jobSnapshot {
		return aRange(1, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b")
	}
	waits := func() *jobSnapshot { return aJob(2).here("a", "c").world(rendezvous.Waiting, "a", "b") }
	for _, c := range []struct {
		name string
		x    *situation
		then map[time.Duration]string
	}{
		{"it was lost", given(trains(), inQuarantine(lost)), map[time.Duration]string{
			0: "nothing for 30s", 29 * time.Second: "nothing for 30s",
			30 * time.Second: "hold (saving) planned, join"}},
		{"its workers failed, and the others train", given(trains(), inQuarantine(failed)),
			map[time.Duration]string{
				0: "nothing for 30s", 30 * time.Second: "hold (saving) planned, join"}},
		{"its workers failed, and the other waits for it",
			given(waits(), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("b"),
				inQuarantine(failed)), map[time.Duration]string{
				0: "nothing for 30s", 30 * time.Second: "propose 2 (node-lost): a c; without b"}},
	} {
		var m plan.Observed
		for _, after := range slices.Sorted(maps.Keys(c.then)) {
			now := noon.Add(after)
			m.Update(&c.x.Snapshot, c.x.view(), now)
			if got, want := stepText(
				plan.Next(plan.Facts{Snapshot: &c.x.Snapshot, View: c.x.view(), Observed: m,
					Timeouts: plan.DefaultTimeouts, Now: now})),
				c.then[after]; got != want {
				t.Errorf("%s, after %s: %s, want %s", c.name, after, got, want)
			}
		}
	}
}

// After five generations in a row that losses ended without progress, the next ones wait.
func TestChurn(t *testing.T) {
	for churn, want := range map[int]string{
		4:  "propose 3 (node-lost): a c; evicts b; lost b",
		5:  "hold (backoff) 1s; lost b",
		7:  "hold (backoff) 4s; lost b",
		20: "hold (backoff) 30s; lost b",
	} {
		if got := stepText(running(rendezvous.Ledger{Churn: churn}, crashed("b")).plan()); got != want {
			t.Errorf("%d generations before: %s, want %s", churn, got, want)
		}
	}
	if got := books(running(rendezvous.Ledger{Churn: 4}, ran(10*time.Second), crashed("b")).plan()).
		Churn; got != 0 {
		t.Errorf("after ten seconds of running %d generations are counted", got)
	}
}

// Status and events show the nodes in quarantine, and admit lifts it.
func TestQuarantineIsShownAndLifted(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(1).join("a", "b").run("a")
	s := w.see()
	l := rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 3, Since: 1,
		Quarantine: rendezvous.Seconds(30 * time.Second), Text: "it was lost 3 times"}}}
	if _, err := w.Hold(t.Context(), s, w.me(), plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.NodesMissing},
		Ledger: l}); err != nil {
		t.Fatal(err)
	}
	s = w.see()
	shown := func() (state status.NodeState, why string) {
		for _, n := range status.Explain(w.see(), time.Now()).Nodes {
			if n.Node == "b" && n.Why != nil {
				return n.State, *n.Why
			} else if n.Node == "b" {
				return n.State, ""
			}
		}
		return "", ""
	}
	if state, why := shown(); state != status.NodeQuarantined || why != "it was lost 3 times; for 30s" {
		t.Errorf("b is %s: %q", state, why)
	}
	if e := s.Events[len(s.Events)-2]; e.Kind != history.Quarantined || e.Node != "b" ||
		e.Text != "b is in quarantine for 30s: it was lost 3 times" {
		t.Errorf("the event is %+v", e)
	}
	if err := (txn.Requests{Store: w.Store, Job: w.Job}).Admit(t.Context(), s, "b"); err != nil {
		t.Fatal(err)
	}
	if state, _ := shown(); state != status.NodeSpare {
		t.Errorf("after admit b is %s", state)
	}
	if s = w.see(); s.Wish.Request == "" || s.Wish.NP != 1 ||
		s.Events[len(s.Events)-1].Kind != history.Admitted {
		t.Errorf("wish %+v, event %+v", s.Wish, s.Events[len(s.Events)-1])
	}
}

// The registration of a node says which program it runs.
func TestOtherProgramIsShown(t *testing.T) {
	x := given(aJob(2).here("a", "b").world(rendezvous.Running, "a", "b"), otherProgram("b"))
	for _, n := range status.Explain(&x.Snapshot, noon).Nodes {
		if n.OtherProgram != (n.Node == "b") {
			t.Errorf("%s runs another program: %v", n.Node, n.OtherProgram)
		}
	}
	w := newStoredJob(t, memory.New().Client("test"), "x").create(1)
	n := w.life("a")
	if _, err := w.reg.Join(t.Context(),
		membership.Joining{Node: n, JobRev: w.see().Job.Rev, OtherProgram: true}); err != nil {
		t.Fatal(err)
	}
	s := w.see()
	if e := s.Events[len(s.Events)-1]; e.Text != "a joined with 1 worker at a:1; it runs another program "+
		"than the job" || e.Fields["other_program"] != true {
		t.Errorf("the event is %+v", e)
	}
}
