package rendezvous_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// newcomer makes a node a member in its first generation.
func newcomer(nodes ...string) fact {
	return func(x *situation) {
		for _, n := range nodes {
			x.World.Newcomers = append(x.World.Newcomers, x.World.Rank(ref(n)))
		}
	}
}

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
			if r.UntilAdmitted {
				text += " and until admitted"
			}
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
	used := ledger(rendezvous.Ledger{Used: 3, Head: 0})
	short := ran(2 * time.Second)
	for _, c := range []struct {
		name          string
		x             *situation
		want, records string
	}{
		{"a newcomer fails: the others go on, and no restart is spent",
			given(range3(), newcomer("b"), used, short, failure("b", 2, time.Second)),
			"propose 2 (worker-failed): a c; leaving b; the failure spent nothing",
			"b: lost 0, failed 1, out for 30s and until admitted; "},
		{"a newcomer fails again: for twice as long",
			given(range3(), newcomer("b"), short, failure("b", 2, time.Second),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Failures: 1}}})),
			"propose 2 (worker-failed): a c; leaving b; the failure spent nothing",
			"b: lost 0, failed 2, out for 1m0s and until admitted; "},
		{"no restart is left: a newcomer still ends nothing",
			given(aRange(1, 2).here("a", "b").world(rendezvous.Running, "a", "b"), newcomer("b"), used, short,
				failure("b", 2, time.Second)),
			"propose 2 (worker-failed): a; leaving b; the failure spent nothing",
			"b: lost 0, failed 1, out for 30s and until admitted; "},
		{"an old member fails beside a newcomer: it spends a restart",
			given(range3(), newcomer("b"), short, failure("a", 2, time.Second)),
			"propose 2 (worker-failed): a b c; the failure spent a restart", ""},
		{"the generation ran for a minute: no node is a newcomer",
			given(range3(), newcomer("b"), ran(time.Minute), failure("b", 2, time.Second)),
			"propose 2 (worker-failed): a b c; the failure spent a restart", ""},
		{"a newcomer asks for a new generation",
			given(range3(), newcomer("b"), short, failure("b", 101, time.Second)),
			"propose 2 (asked): a b c; the failure spent nothing", ""},
		{"an exact job waits for another node",
			given(aJob(2).here("a", "b").world(rendezvous.Running, "a", "b"),
				newcomer("b"), short, failure("b", 2, time.Second)),
			"hold (nodes-missing); the failure spent nothing",
			"b: lost 0, failed 1, out for 30s and until admitted; "},
		{"the first world, and one node runs another program",
			given(aJob(2).here("a", "b").world(rendezvous.Running, "a", "b"), otherProgram("b"), short,
				failure("b", 2, time.Second)),
			"hold (nodes-missing); the failure spent nothing",
			"b: lost 0, failed 1, out for 30s and until admitted; "},
		{"the first world, and all run the same",
			given(aJob(2).here("a", "b").world(rendezvous.Running, "a", "b"),
				short, failure("b", 2, time.Second)),
			"propose 2 (worker-failed): a b; the failure spent a restart", ""},
		{"a first loss is only counted",
			given(range3(), short, crashed("b")),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; "},
		{"a third loss is one too many",
			given(range3(), short, crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 2}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 3, failed 0, out for 30s; "},
		{"a sixth keeps it out for long",
			given(range3(), short, crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 5}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 6, failed 0, out for 4m0s; "},
		{"ten minutes of running forgive",
			given(range3(), ran(10*time.Minute), crashed("b"),
				ledger(rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Losses: 5}}})),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; "},
		{"a node that left was not lost",
			given(range3(), short, wentAway("b")), "propose 2 (node-lost): a c; without b", ""},
		{"a node in quarantine makes no world grow",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 3})), "nothing", ""},
		{"nor does it take the place of a lost one",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 3}), short, crashed("b")),
			"propose 2 (node-lost): a; evicts b; lost b",
			"b: lost 1, failed 0; c: lost 3, failed 0, out for 30s; "},
		{"unless there would be no world: it was only lost",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
				inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 3}), short, crashed("b")),
			"propose 2 (node-lost): a c; evicts b; lost b", "b: lost 1, failed 0; c: lost 3, failed 0; "},
		{"its program fails: better no world",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"),
				inQuarantine(rendezvous.NodeRecord{Node: "c", Failures: 1, UntilAdmitted: true}), short, crashed("b")),
			"hold (nodes-missing); lost b",
			"b: lost 1, failed 0; c: lost 0, failed 1, out for 30s and until admitted; "},
		{"it comes back with another program: another try",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Failures: 1, Program: "bad",
				UntilAdmitted: true}), func(x *situation) { x.Node("c").Program = "good" }),
			"hold (saving) planned, join", "c: lost 0, failed 1, out for 30s and until admitted; "},
		{"the operator admits it", given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 3}),
			func(x *situation) { x.Wish.Admit = []rendezvous.Admit{{Node: "c", Generation: 1}} }),
			"hold (saving) planned, join", "c: lost 3, failed 0, out for 30s; "},
		{"an admission of before does not count",
			given(range3(), inQuarantine(rendezvous.NodeRecord{Node: "c", Losses: 3}),
				func(x *situation) { x.Wish.Admit = []rendezvous.Admit{{Node: "c", Generation: 0}} }),
			"nothing", ""},
		{"a new attempt knows of no quarantine",
			given(aRange(1, 2).here("a", "b").world(rendezvous.Failed, "a"),
				inQuarantine(rendezvous.NodeRecord{Node: "b", Failures: 1}), newAttempt),
			"propose 2 (attempt): a b", ""},
	} {
		step := c.x.plan()
		if got := stepText(step); got != c.want || records(step) != c.records {
			t.Errorf("%s:\n got %s | %s\nwant %s | %s", c.name, got, records(step), c.want, c.records)
		}
	}
}

// Newcomers are the members of a World whose node was in no World before that made progress.
func TestNewcomers(t *testing.T) {
	for _, c := range []struct {
		name string
		x    *situation
		want string
	}{
		{"the first world of an attempt has none", given(aJob(2).here("a", "b")), "[]"},
		{"a node that joins is one", given(aJob(3).here("a", "b", "c").world(rendezvous.Waiting, "a", "b"),
			holding(rendezvous.NodesMissing, rendezvous.CauseNodeJoined)), "[2]"},
		{"and stays one while nothing progresses",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"),
				newcomer("b"), ran(0), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)), "[1]"},
		{"progress ends that",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"), newcomer("b"),
				commit(1, "a"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)), "[]"},
		{"a node whose agent was started again is none",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"), bornAgain("b"),
				holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)), "[]"},
		{"unless it was one before",
			given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"), newcomer("b"),
				ran(0), bornAgain("b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)), "[1]"},
	} {
		p, ok := c.x.plan().(plan.Propose)
		if got := fmt.Sprint(p.World.Newcomers); !ok || got != c.want {
			t.Errorf("%s: %s %s, want %s", c.name, stepText(c.x.plan()), got, c.want)
		}
	}
}

// The planning agent counts a quarantine by its own clock, from when it first saw it. A node whose
// workers failed is tried again only if there can be no World without it.
func TestQuarantineEnds(t *testing.T) {
	lost, failed := rendezvous.NodeRecord{Node: "c", Losses: 3},
		rendezvous.NodeRecord{Node: "c", Failures: 1, UntilAdmitted: true}
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
				0: "nothing for 30s", 30 * time.Second: "nothing", 24 * time.Hour: "nothing"}},
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
