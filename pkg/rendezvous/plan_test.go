package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

const (
	Forming, Running, Finishing = rendezvous.Forming, rendezvous.Running, rendezvous.Finishing
	Failed, Done, Stopped       = rendezvous.Failed, rendezvous.Done, rendezvous.Stopped
	Waiting                     = rendezvous.Waiting
)

var lastCall = rule(func(r *rendezvous.Rules) { r.LastCall = rendezvous.Seconds(3 * time.Second) })

// impossible makes a batch of one sample a step, which two workers cannot share.
func impossible(x *situation) {
	x.Job.Base = scaling.Base{Batch: 1, Nodes: 1, Slots: 1, Policy: scaling.FixedBatch}
}

// planned is a state of a job and the step that follows.
type planned struct {
	name   string
	moment *situation
	want   string
}

// TestPlan has the step of each state, by phase (docs/PROTOCOL.md, section 6).
func TestPlan(t *testing.T) {
	for name, rows := range map[string][]planned{
		"no world yet":                        plansOfNoWorld(),
		"an attempt that ended":               plansAfterTheEnd(),
		"forming":                             plansOfForming(),
		"running":                             plansOfRunning(),
		"finishing":                           plansOfFinishing(),
		"waiting for a planned change":        plansOfAPlannedWait(),
		"waiting for nodes or for a back-off": plansOfAWait(),
		"quarantine":                          plansOfQuarantine(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range rows {
				if got := stepText(c.moment.plan()); got != c.want {
					t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
				}
			}
		})
	}
}

// After a restart that was asked for no worker goes on with the state in its memory, also where a
// node is lost before the others saved.
func TestRestartKeepsNoState(t *testing.T) {
	for name, c := range map[string]struct {
		x    *situation
		want schema.Generation
	}{
		"saved": {given(aJob(2).here("a", "b").world(Waiting, "a", "b"), asksToRestart(1),
			savingFor(rendezvous.CauseRestart), savedBy("a", "b")), 2},
		"a node is lost": {given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), asksToRestart(1),
			crashed("b")), 2},
		"not asked": {given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("b")), 0},
	} {
		step, ok := c.x.plan().(plan.Propose)
		if !ok || step.World.Rollback != c.want {
			t.Errorf("%s: %s, state of before %d may be kept, want %d", name, stepText(c.x.plan()),
				step.World.Rollback, c.want)
		}
	}
}

func plansOfNoWorld() []planned {
	return []planned{
		{"no node is here", given(aJob(2)), "nothing"},
		{"one of two is here", given(aJob(2).here("a")), "nothing"},
		{"two of two are here", given(aJob(2).here("a", "b")), "propose 1 (first): a b"},
		{"three of two are here: the third is a spare",
			given(aJob(2).here("a", "b", "c")), "propose 1 (first): a b"},
		{"scaled before the first world",
			given(aJob(2).here("a", "b", "c"), asksFor(3)), "propose 1 (first): a b c"},
		{"a node that is asked to go does not count",
			given(aJob(2).here("a", "b", "c"), asksToGo("a")), "propose 1 (first): b c"},
		{"a node of an earlier attempt does not count",
			given(aJob(2).here("a", "b"), func(x *situation) { x.Nodes[0].Attempt = 0 }), "nothing"},
		{"fewer than MIN", given(aRange(2, 4).here("a")), "nothing"},
		{"between MIN and MAX: a last call",
			given(aRange(2, 4).here("a", "b"), lastCall, call(time.Second)), "nothing for 2s"},
		{"the last call is over",
			given(aRange(2, 4).here("a", "b"), lastCall, call(3*time.Second)), "propose 1 (first): a b"},
		{"MAX is here: at once",
			given(aRange(2, 4).here("a", "b", "c", "d"), lastCall, call(0)), "propose 1 (first): a b c d"},
		{"a known target is never waited past",
			given(aRange(1, 4).here("a", "b"), lastCall, asksFor(2), call(0)), "propose 1 (first): a b"},
		{"no batch plan for two", given(aJob(2).here("a", "b"), impossible), "nothing"},
		{"the first generation follows what any node ever saw",
			given(aJob(2).here("a", "b"), func(x *situation) { x.Nodes[1].LastGeneration = 7 }),
			"propose 8 (first): a b"},
		{"it follows the fence",
			given(aJob(2).here("a", "b"), func(x *situation) { x.Fence = 3 }), "propose 4 (first): a b"},
		{"there is a checkpoint: its holder is rank 0",
			given(aJob(2).here("a", "b"), commit(4, "b")), "propose 1 (first): b a from 4"},
		{"no wish yet: the job is being made",
			given(aJob(2).here("a", "b"), func(x *situation) { x.Wish.Rev = 0 }), "nothing"},
		{"no job", given(aJob(2), func(x *situation) { x.Job = nil }), "nothing"},
		{"a stop", given(aJob(2).here("a"), asksToStop), "stopped 93 (operator)"},
	}
}

func plansAfterTheEnd() []planned {
	return []planned{
		{"done stays done", given(aJob(2).here("a", "b").world(Done, "a", "b")), "nothing"},
		{"done stays done, also in a later attempt",
			given(aJob(2).here("a", "b").world(Done, "a", "b"), newAttempt), "nothing"},
		{"failed, with enough nodes here",
			given(aJob(2).here("a", "b").world(Failed, "a", "b")), "nothing"},
		{"stopped, with another wish",
			given(aJob(2).here("a", "b").world(Stopped, "a", "b"), asksFor(1)), "nothing"},
		{"failed, a new attempt: next generation, full budget",
			given(aJob(2).here("a", "b").world(Failed, "a", "b"), generation(5), restartsUsed(3),
				newAttempt, commit(2, "a", "b")), "propose 6 (attempt): a b from 2"},
		{"a new attempt of other nodes: the old members are shown to be unregistered",
			given(aJob(2).here("c", "d").world(Stopped, "a", "b"), newAttempt, wentAway("a"),
				wentAway("b")),
			"propose 2 (attempt): c d; without a b"},
		{"a new attempt, and old members are away since the end of theirs: it lost no node",
			given(aJob(1).here("c").world(Failed, "a", "b"), newAttempt, cutOff("a", 0), vanished("b")),
			"propose 2 (attempt): c; without a b"},
		{"a new attempt, an old member is still registered in the old one",
			given(aJob(2).here("c", "d").world(Stopped, "a", "b"), newAttempt, wentAway("b"),
				func(x *situation) { x.here("a"); x.Nodes[0].Attempt = 1 }),
			"propose 2 (attempt): c d; leaving a; without b"},
		{"a new attempt, too few nodes",
			given(aJob(2).here("a").world(Failed, "a", "b"), newAttempt), "nothing"},
		{"a stop of the new attempt, before its first world",
			given(aJob(2).here("a").world(Failed, "a", "b"), newAttempt, asksToStop),
			"stopped 93 (operator)"},
		{"a stop of the attempt that has failed",
			given(aJob(2).here("a", "b").world(Failed, "a", "b"), asksToStop), "nothing"},
		{"a stop of the earlier attempt stops nothing",
			given(aJob(2).here("a", "b").world(Stopped, "a", "b"), asksToStop, newAttempt),
			"propose 2 (attempt): a b"},
	}
}

func plansOfForming() []planned {
	return []planned{
		{"no member is ready", given(aJob(2).here("a", "b").world(Forming, "a", "b")), "nothing for 30s"},
		{"one is ready",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a")), "nothing for 30s"},
		{"all are ready",
			given(aJob(2).here("a", "b").world(Forming, "b", "a"), ready("b", "a")), "run, master b:100 and 200"},
		{"the record of another incarnation does not count",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a", "b"), func(x *situation) {
				x.Ready["b"] = rendezvous.Ready{Incarnation: "new-b"}
			}),
			"nothing for 30s"},
		{"a leaver runs yet",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b")), "nothing for 30s"},
		{"the leaver is ready",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a", "b"), leaving("b")),
			"run, master a:100 and 200"},
		{"the leaver is not registered any more",
			given(aJob(1).here("a").world(Forming, "a"), ready("a"), leaving("b")), "run, master a:100 and 200"},
		{"the leaver lives again",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), bornAgain("b")),
			"run, master a:100 and 200"},
		{"the leaver is ready as another life only",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), func(x *situation) {
				x.Ready["b"] = rendezvous.Ready{Incarnation: "new-b"}
			}),
			"nothing for 30s"},
		{"a leaver is dead, and its key is there: evicted",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), crashed("b")),
			"propose 2 (node-lost): a; evicts b; lost b"},
		{"a member is lost, a spare is here",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), crashed("b")),
			"propose 2 (node-lost): a c; evicts b; lost b"},
		{"a member is lost and there is no other node",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), crashed("b")),
			"hold (nodes-missing); lost b"},
		{"a member left",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), wentAway("b")),
			"propose 2 (node-lost): a c; without b"},
		{"a member lives again",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), bornAgain("b")),
			"propose 2 (node-lost): a b'; without b; lost b"},
		{"C8: a member is cut off: within the window it may come back",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), cutOff("b", 9*time.Second)),
			"nothing for 30s"},
		{"C8: past the window it is dropped from a forming world",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), cutOff("b", 10*time.Second)),
			"propose 2 (node-lost): a c; without b; lost b"},
		{"the wish changed: the next generation, without saving first",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), asksFor(3)),
			"propose 2 (scale): a b c"},
		{"the wish changed beyond the nodes that are here",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), asksFor(3)), "hold (nodes-missing)"},
		{"C11: np 3→1→2 carries the leavers on",
			given(aJob(1).here("a", "b", "c").world(Forming, "a"), leaving("b", "c"), asksFor(2)),
			"propose 2 (scale): a b; leaving c"},
		{"a full barrier waits for no wish: the wish goes first",
			given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a", "b"), asksFor(1)),
			"propose 2 (scale): a; leaving b"},
		{"a range below its target, and one more came: a last call",
			given(aRange(1, 4).here("a", "b").world(Forming, "a"), lastCall, call(time.Second)),
			"nothing for 2s"},
		{"a range below its target, the last call is over",
			given(aRange(1, 4).here("a", "b").world(Forming, "a"), lastCall, call(3*time.Second)),
			"propose 2 (node-joined): a b"},
		{"a range meets its target: at once, no worker has started",
			given(aRange(1, 2).here("a", "b").world(Forming, "a"), lastCall, call(0)),
			"propose 2 (node-joined): a b"},
		{"a range below its target, and the barrier is full: it runs",
			given(aRange(1, 4).here("a", "b").world(Forming, "a"), ready("a"), lastCall,
				call(time.Second)),
			"run, master a:100 and 200"},
		{"a range below its target, and no batch plan with the newcomer",
			given(aRange(1, 2).here("a", "b").world(Forming, "a"), impossible), "nothing for 30s"},
		{"a spare more changes nothing",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b")), "nothing for 30s"},
		{"the barrier waited too long: without the missing node",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"),
				since(30*time.Second)),
			"propose 2 (node-lost): a c; evicts b; lost b; quarantine b until 3"},
		{"it held up a barrier before: twice as long",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"),
				ready("a"), generation(8), since(30*time.Second), func(x *situation) {
					x.World.Quarantine = []rendezvous.Quarantine{{Node: "b", Until: 6, Times: 1}}
				}), "propose 9 (node-lost): a c; evicts b; lost b; quarantine b until 11"},
		{"the barrier waited too long, and bytes move",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"),
				ready("a"), since(31*time.Second), doing("b", "fetching")), "nothing for 3s"},
		{"bytes move for ten minutes",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"),
				since(10*time.Minute), doing("b", "fetching")),
			"propose 2 (node-lost): a c; evicts b; lost b; quarantine b until 3"},
		{"the barrier waited too long, and there is no other node: a node that came late is tried again, and " +
			"that it was late is kept", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a"),
			since(30*time.Second)), "hold (nodes-missing); quarantine b until 3"},
		{"it was late the second time", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a"),
			generation(2), since(30*time.Second), quarantine("b", 3)),
			"hold (nodes-missing); quarantine b until 5"},
		{"a leaver held it up: it is evicted, its workers are a dead end",
			given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"),
				since(30*time.Second)),
			"propose 2 (node-lost): a; evicts b; lost b; quarantine b until 3"},
		{"a stop: nothing is proposed",
			given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), crashed("b"), asksToStop),
			"hold (draining) planned, stop"},
	}
}
