package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// Each row is a moment of a job and the one step that follows, phase by phase (docs/PROTOCOL.md, section 6).
func TestPlan(t *testing.T) {
	const (
		Forming, Running, Finishing = rendezvous.Forming, rendezvous.Running, rendezvous.Finishing
		Failed, Done, Stopped       = rendezvous.Failed, rendezvous.Done, rendezvous.Stopped
		Waiting                     = rendezvous.Waiting
	)
	lastCall := rule(func(r *rendezvous.Rules) { r.LastCall = rendezvous.Seconds(3 * time.Second) })
	impossible := func(x *situation) { // one sample a step cannot be split over two workers
		x.Job.Base = scaling.Base{Batch: 1, Nodes: 1, Slots: 1, Policy: scaling.FixedBatch}
	}
	for _, part := range []struct {
		name string
		rows []planned
	}{
		{"no world yet", []planned{
			{"nobody is here", given(aJob(2)), "nothing"},
			{"one of two is here", given(aJob(2).here("a")), "nothing"},
			{"two of two are here", given(aJob(2).here("a", "b")), "propose 1 (first): a b"},
			{"three of two are here: the third is a spare", given(aJob(2).here("a", "b", "c")), "propose 1 (first): a b"},
			{"scaled before the first world", given(aJob(2).here("a", "b", "c"), asksFor(3)), "propose 1 (first): a b c"},
			{"a node that is asked to go does not count", given(aJob(2).here("a", "b", "c"), asksToGo("a")), "propose 1 (first): b c"},
			{"a node of an earlier attempt does not count", given(aJob(2).here("a", "b"), func(x *situation) { x.Nodes[0].Attempt = 0 }), "nothing"},
			{"fewer than MIN", given(aRange(2, 4).here("a")), "nothing"},
			{"between MIN and MAX: a last call", given(aRange(2, 4).here("a", "b"), lastCall, call(time.Second)), "nothing for 2s"},
			{"the last call is over", given(aRange(2, 4).here("a", "b"), lastCall, call(3*time.Second)), "propose 1 (first): a b"},
			{"MAX is here: at once", given(aRange(2, 4).here("a", "b", "c", "d"), lastCall, call(0)), "propose 1 (first): a b c d"},
			{"a known target is never waited past", given(aRange(1, 4).here("a", "b"), lastCall, asksFor(2), call(0)), "propose 1 (first): a b"},
			{"no batch plan for two", given(aJob(2).here("a", "b"), impossible), "nothing"},
			{"the first generation follows what any node ever saw", given(aJob(2).here("a", "b"), func(x *situation) { x.Nodes[1].LastGeneration = 7 }), "propose 8 (first): a b"},
			{"it follows the fence", given(aJob(2).here("a", "b"), func(x *situation) { x.Fence = 3 }), "propose 4 (first): a b"},
			{"there is a checkpoint: its holder is rank 0", given(aJob(2).here("a", "b"), commit(4, "b")), "propose 1 (first): b a from 4"},
			{"no wish yet: the job is being made", given(aJob(2).here("a", "b"), func(x *situation) { x.Wish.Rev = 0 }), "nothing"},
			{"no job", given(aJob(2), func(x *situation) { x.Job = nil }), "nothing"},
			{"a stop", given(aJob(2).here("a"), asksToStop), "stopped 93 (operator)"},
		}},
		{"an attempt that ended", []planned{
			{"done stays done", given(aJob(2).here("a", "b").world(Done, "a", "b")), "nothing"},
			{"done stays done, also in a later attempt", given(aJob(2).here("a", "b").world(Done, "a", "b"), newAttempt), "nothing"},
			{"failed, with enough nodes here", given(aJob(2).here("a", "b").world(Failed, "a", "b")), "nothing"},
			{"stopped, with another wish", given(aJob(2).here("a", "b").world(Stopped, "a", "b"), asksFor(1)), "nothing"},
			{"failed, a new attempt: next generation, full budget", given(aJob(2).here("a", "b").world(Failed, "a", "b"), generation(5), restartsUsed(3), newAttempt, commit(2, "a", "b")), "propose 6 (attempt): a b from 2"},
			{"a new attempt of other nodes: the old members are shown to be unregistered", given(aJob(2).here("c", "d").world(Stopped, "a", "b"), newAttempt, wentAway("a"), wentAway("b")), "propose 2 (attempt): c d; without a b"},
			{"a new attempt, and old members are away since the end of theirs: it lost nobody", given(aJob(1).here("c").world(Failed, "a", "b"), newAttempt, cutOff("a", 0), vanished("b")), "propose 2 (attempt): c; without a b"},
			{"a new attempt, an old member is still registered in the old one", given(aJob(2).here("c", "d").world(Stopped, "a", "b"), newAttempt, wentAway("b"), func(x *situation) { x.here("a"); x.Nodes[0].Attempt = 1 }), "propose 2 (attempt): c d; leaving a; without b"},
			{"a new attempt, too few nodes", given(aJob(2).here("a").world(Failed, "a", "b"), newAttempt), "nothing"},
			{"a stop of the new attempt, before its first world", given(aJob(2).here("a").world(Failed, "a", "b"), newAttempt, asksToStop), "stopped 93 (operator)"},
			{"a stop of the attempt that has failed", given(aJob(2).here("a", "b").world(Failed, "a", "b"), asksToStop), "nothing"},
			{"a stop of the earlier attempt stops nothing", given(aJob(2).here("a", "b").world(Stopped, "a", "b"), asksToStop, newAttempt), "propose 2 (attempt): a b"},
		}},
		{"forming", []planned{
			{"nobody is ready", given(aJob(2).here("a", "b").world(Forming, "a", "b")), "nothing for 30s"},
			{"one is ready", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a")), "nothing for 30s"},
			{"all are ready", given(aJob(2).here("a", "b").world(Forming, "b", "a"), ready("b", "a")), "run, master b:100 and 200"},
			{"the word of another life does not count", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a", "b"), func(x *situation) { x.Ready["b"] = rendezvous.Ready{Incarnation: "new-b"} }), "nothing for 30s"},
			{"a leaver runs yet", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b")), "nothing for 30s"},
			{"the leaver is ready", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a", "b"), leaving("b")), "run, master a:100 and 200"},
			{"the leaver is not registered any more", given(aJob(1).here("a").world(Forming, "a"), ready("a"), leaving("b")), "run, master a:100 and 200"},
			{"the leaver lives again", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), bornAgain("b")), "run, master a:100 and 200"},
			{"the leaver is ready as another life only", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), func(x *situation) { x.Ready["b"] = rendezvous.Ready{Incarnation: "new-b"} }), "nothing for 30s"},
			{"a leaver is dead, and its key is there: evicted", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), crashed("b")), "propose 2 (node-lost): a; evicts b; lost b"},
			{"a member is lost, a spare is here", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), crashed("b")), "propose 2 (node-lost): a c; evicts b; lost b"},
			{"a member is lost and there is nobody else", given(aJob(2).here("a", "b").world(Forming, "a", "b"), crashed("b")), "hold (nodes-missing); lost b"},
			{"a member left", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), wentAway("b")), "propose 2 (node-lost): a c; without b"},
			{"a member lives again", given(aJob(2).here("a", "b").world(Forming, "a", "b"), bornAgain("b")), "propose 2 (node-lost): a b'; without b; lost b"},
			{"C8: a member is cut off: within the window it may come back", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), cutOff("b", 9*time.Second)), "nothing for 30s"},
			{"C8: past the window it is dropped from a forming world", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), cutOff("b", 10*time.Second)), "propose 2 (node-lost): a c; without b; lost b"},
			{"the wish changed: the next generation, without saving first", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), asksFor(3)), "propose 2 (scale): a b c"},
			{"the wish changed beyond who is here", given(aJob(2).here("a", "b").world(Forming, "a", "b"), asksFor(3)), "hold (nodes-missing)"},
			{"C11: np 3→1→2 carries the leavers on", given(aJob(1).here("a", "b", "c").world(Forming, "a"), leaving("b", "c"), asksFor(2)), "propose 2 (scale): a b; leaving c"},
			{"a full barrier waits for no wish: the wish goes first", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a", "b"), asksFor(1)), "propose 2 (scale): a; leaving b"},
			{"a range below its target, and one more came: a last call", given(aRange(1, 4).here("a", "b").world(Forming, "a"), lastCall, call(time.Second)), "nothing for 2s"},
			{"a range below its target, the last call is over", given(aRange(1, 4).here("a", "b").world(Forming, "a"), lastCall, call(3*time.Second)), "propose 2 (node-joined): a b"},
			{"a range meets its target: at once, nobody has started", given(aRange(1, 2).here("a", "b").world(Forming, "a"), lastCall, call(0)), "propose 2 (node-joined): a b"},
			{"a range below its target, and the barrier is full: it runs", given(aRange(1, 4).here("a", "b").world(Forming, "a"), ready("a"), lastCall, call(time.Second)), "run, master a:100 and 200"},
			{"a range below its target, and no batch plan with the newcomer", given(aRange(1, 2).here("a", "b").world(Forming, "a"), impossible), "nothing for 30s"},
			{"a spare more changes nothing", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b")), "nothing for 30s"},
			{"the barrier waited too long: without who is missing", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"), since(30*time.Second)), "propose 2 (node-lost): a c; evicts b; lost b; quarantine b until 3"},
			{"it held up a barrier before: twice as long", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"), generation(8), since(30*time.Second), func(x *situation) {
				x.World.Quarantine = []rendezvous.Quarantine{{Node: "b", Until: 6, Times: 1}}
			}), "propose 9 (node-lost): a c; evicts b; lost b; quarantine b until 11"},
			{"the barrier waited too long, and bytes move", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"), since(31*time.Second), doing("b", "fetching")), "nothing for 3s"},
			{"bytes move for ten minutes", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), ready("a"), since(10*time.Minute), doing("b", "fetching")), "propose 2 (node-lost): a c; evicts b; lost b; quarantine b until 3"},
			{"the barrier waited too long, and there is nobody else: who came late is tried again, and that it was late is kept", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a"), since(30*time.Second)), "hold (nodes-missing); quarantine b until 3"},
			{"it was late the second time", given(aJob(2).here("a", "b").world(Forming, "a", "b"), ready("a"), generation(2), since(30*time.Second), quarantine("b", 3)), "hold (nodes-missing); quarantine b until 5"},
			{"a leaver held it up: it is evicted, its workers are a dead end", given(aJob(1).here("a", "b").world(Forming, "a"), ready("a"), leaving("b"), since(30*time.Second)), "propose 2 (node-lost): a; evicts b; lost b; quarantine b until 3"},
			{"a stop: nothing is proposed", given(aJob(2).here("a", "b", "c").world(Forming, "a", "b"), crashed("b"), asksToStop), "hold (draining) planned, stop"},
		}},
		{"running", []planned{
			{"all is well", given(aJob(2).here("a", "b").world(Running, "a", "b")), "nothing"},
			{"a spare is here", given(aJob(2).here("a", "b", "c").world(Running, "a", "b")), "nothing"},
			{"a member is in doubt", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), doubted("b")), "nothing"},
			{"a member is dead: the spare takes its rank", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("a")), "propose 2 (node-lost): c b; evicts a; lost a"},
			{"a member is dead and its lease has run out", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), vanished("b")), "propose 2 (node-lost): a c; without b; lost b"},
			{"a member is dead and there is nobody else", given(aJob(2).here("a", "b").world(Running, "a", "b"), crashed("b")), "hold (nodes-missing); lost b"},
			{"a member of a range is dead: at once with who is left", given(aRange(1, 2).here("a", "b").world(Running, "a", "b"), crashed("b"), lastCall), "propose 2 (node-lost): a; evicts b; lost b"},
			{"a member lives again: it takes its rank", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), bornAgain("a")), "propose 2 (node-lost): a' b; without a; lost a"},
			{"C7: it lives again, and its old key is there", given(aJob(2).here("a", "b").world(Running, "a", "b"), crashed("b")), "hold (nodes-missing); lost b"},
			{"rank 0 is dead: a holder goes to rank 0", given(aJob(3).here("a", "b", "c", "d").world(Running, "a", "b", "c"), crashed("a"), commit(9, "a", "c")), "propose 2 (node-lost): c b d from 9; evicts a; lost a"},
			{"no survivor holds it: a holder takes the place of the newcomer, no survivor's", given(aJob(3).here("a", "b", "c", "d", "e").world(Running, "a", "b", "c"), crashed("a"), commit(9, "a", "e")), "propose 2 (node-lost): e b c from 9; evicts a; lost a"},
			{"rank 0 survived without it: the newcomer of the highest rank makes room", given(aJob(4).here("a", "b", "c", "d", "e", "f", "g").world(Running, "a", "b", "c", "d"), crashed("b"), crashed("c"), commit(9, "g")), "propose 2 (node-lost): g e a d from 9; evicts b c; lost b c"},
			{"all survived, and none holds it: the highest rank makes room", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseScale), commit(9, "c")), "propose 2 (scale): c a from 9; leaving b"},
			{"a survivor that np cuts holds it, and so does a newcomer: the survivor stays", given(aJob(3).here("a", "b", "c", "z").world(Forming, "b", "c", "z"), asksFor(2), commit(9, "a", "z")), "propose 2 (scale): z b from 9; leaving c"},
			{"a member is cut off from the store: it goes on", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), cutOff("b", 59*time.Second)), "nothing"},
			{"it is cut off for longer than the limit", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), cutOff("b", time.Minute)), "propose 2 (node-lost): a c; without b; lost b"},
			{"C8: it is cut off, and its worker failed", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), cutOff("b", time.Second), failedThere("b")), "propose 2 (node-lost): a c; without b; lost b"},
			{"another is dead while one is cut off: wait for it", given(aJob(3).here("a", "b", "c", "d", "e").world(Running, "a", "b", "c"), cutOff("b", time.Second), crashed("c")), "nothing for 500ms"},
			{"past the window it is dropped with that change", given(aJob(3).here("a", "b", "c", "d", "e").world(Running, "a", "b", "c"), cutOff("b", 10*time.Second), crashed("c")), "propose 2 (node-lost): a d e; evicts c; without b; lost b c"},
			{"scale up: the workers save first", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), asksFor(3)), "hold (saving) planned, scale"},
			{"scale down", given(aJob(3).here("a", "b", "c").world(Running, "a", "b", "c"), asksFor(2)), "hold (saving) planned, scale"},
			{"a wish of the same size changes no member", given(aJob(3).here("a", "b", "c").world(Running, "a", "b", "c"), asksFor(3)), "nothing"},
			{"a range that asks for more than are here", given(aRange(1, 4).here("a", "b").world(Running, "a", "b"), asksFor(4)), "nothing"},
			{"a range that asks for more than are here, and has a spare: the workers train on for the last call", given(aRange(1, 4).here("a", "b", "c").world(Running, "a", "b"), asksFor(4), lastCall, call(time.Second)), "nothing for 2s"},
			{"the last call is over: it grows", given(aRange(1, 4).here("a", "b", "c").world(Running, "a", "b"), asksFor(4), lastCall, call(3*time.Second)), "hold (saving) planned, scale"},
			{"all that were asked for are here: at once", given(aRange(1, 4).here("a", "b", "c", "d").world(Running, "a", "b"), asksFor(4), lastCall), "hold (saving) planned, scale"},
			{"it asks for more, and has no batch plan for what is here", given(aRange(1, 4).here("a", "b").world(Running, "a"), asksFor(4), impossible), "nothing"},
			{"it asks for fewer", given(aRange(1, 4).here("a", "b").world(Running, "a", "b"), asksFor(1)), "hold (saving) planned, scale"},
			{"a member of it is away for a moment", given(aRange(1, 4).here("a", "b").world(Running, "a", "b"), asksFor(4), cutOff("b", time.Second)), "nothing"},
			{"an exact job that asks for more than are here waits", given(aJob(2).here("a", "b").world(Running, "a", "b"), asksFor(4)), "hold (saving) planned, scale"},
			{"unless it was told to grow when they are here", given(aJob(2).here("a", "b").world(Running, "a", "b"), asksFor(4), keepsUntil(2)), "nothing"},
			{"not with one of two", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), asksFor(4), keepsUntil(2)), "nothing"},
			{"with both", given(aJob(2).here("a", "b", "c", "d").world(Running, "a", "b"), asksFor(4), keepsUntil(2)), "hold (saving) planned, scale"},
			{"a member is lost before: the old size holds", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), asksFor(4), keepsUntil(2), crashed("b")), "propose 2 (node-lost): a c; evicts b; lost b"},
			{"a member is lost after: the new size holds", given(aJob(2).here("a", "b", "c", "d").world(Running, "a", "b", "c", "d"), asksFor(4), keepsUntil(2), ofSize(4), crashed("b")), "hold (nodes-missing); lost b"},
			{"drain of a member", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), asksToGo("b")), "hold (saving) planned, drain"},
			{"a member that is asked to go since before this world", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), func(x *situation) { x.Wish.Drain = []string{"b"} }), "hold (saving) planned, drain"},
			{"a newcomer has seen a later generation: the fence must rise above it", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), func(x *situation) { x.Nodes[2].LastGeneration = 5 }), "hold (saving) planned, join"},
			{"a newcomer to a range, below the target: a last call", given(aRange(1, 4).here("a", "b").world(Running, "a"), lastCall, call(time.Second)), "nothing for 2s"},
			{"the last call is over", given(aRange(1, 4).here("a", "b").world(Running, "a"), lastCall, call(3*time.Second)), "hold (saving) planned, join"},
			{"the newcomer meets the target: at once", given(aRange(1, 2).here("a", "b").world(Running, "a"), lastCall, call(0)), "hold (saving) planned, join"},
			{"a newcomer above the target is a spare", given(aRange(1, 2).here("a", "b", "c").world(Running, "a", "b"), lastCall), "nothing"},
			{"a newcomer, and no batch plan with it", given(aRange(1, 2).here("a", "b").world(Running, "a"), impossible), "nothing"},
			{"a worker failed: 50 ms for a sign of a lost node", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 3, 0)), "nothing for 50ms"},
			{"no sign came: the same nodes again", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 3, 50*time.Millisecond)), "propose 2 (worker-failed): a b; the failure spent a restart"},
			{"a node is in doubt: the verdict is waited for", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), failure("b", 3, time.Second), doubted("a")), "nothing for 500ms"},
			{"a node is absent: the verdict is waited for", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), failure("b", 3, time.Second), cutOff("a", 0)), "nothing for 500ms"},
			{"no verdict came: the member is kept", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), failure("b", 3, 1500*time.Millisecond), doubted("a"), doubtFor(1500*time.Millisecond)), "propose 2 (worker-failed): a b; the failure spent a restart"},
			{"the node was lost: the failure is its victim", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), failure("b", 3, 0), crashed("a")), "propose 2 (node-lost): c b; evicts a; lost a; the failure is collateral"},
			{"a victim: the cause may still be told", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 1, 50*time.Millisecond), isVictim), "nothing for 1.95s"},
			{"a victim, and no cause was told", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 1, 2*time.Second), isVictim), "propose 2 (worker-failed): a b; the failure spent a restart"},
			{"a victim, and all others failed too: no cause is to come", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 1, 50*time.Millisecond), isVictim, besides(0)), "propose 2 (worker-failed): a b; the failure spent a restart"},
			{"a victim whose cause is a lost node", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), failure("b", 1, 0), isVictim, crashed("a")), "propose 2 (node-lost): c b; evicts a; lost a; the failure is collateral"},
			{"all were ended for a hang: who is behind is still to be told", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 134, 50*time.Millisecond), isVictim, hangs, besides(0)), "nothing for 3.95s"},
			{"one node alone: there is nobody to be lost", given(aJob(1).here("a").world(Running, "a"), failure("a", 3, 0)), "propose 2 (worker-failed): a; the failure spent a restart"},
			{"a worker is through", given(aJob(2).here("a", "b").world(Running, "a", "b"), ended("b", 0)), "finishing: b"},
			{"one of two workers of a node is through", given(aJob(1).here("a").world(Running, "a"), ended("a", -1, 0)), "finishing: a"},
			{"a worker is through and another failed: nothing restarts until all are", given(aJob(2).here("a", "b").world(Running, "a", "b"), ended("a", 0), failure("b", 1, time.Second)), "finishing: a"},
			{"a worker of another life is through", given(aJob(2).here("a", "b").world(Running, "a", "b"), ended("b", 0), func(x *situation) { x.Exits["b"] = rendezvous.Exit{Incarnation: "new-b", Codes: []*int{new(0)}} }), "nothing"},
			{"a stop: the workers save first", given(aJob(2).here("a", "b").world(Running, "a", "b"), asksToStop), "hold (draining) planned, stop"},
			{"a stop goes before a lost node", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("b"), asksToStop), "hold (draining) planned, stop"},
			{"a stop goes before a failure", given(aJob(2).here("a", "b").world(Running, "a", "b"), failure("b", 3, time.Second), restartsUsed(3), asksToStop), "hold (draining) planned, stop"},
		}},
		{"finishing", []planned{
			{"the others go on", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0)), "nothing"},
			{"all are through", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), ended("b", 0)), "done 0 (worker)"},
			{"all are through, and gone since", given(aJob(2).world(Finishing, "a", "b"), ended("a", 0), ended("b", 0), vanished("a"), wentAway("b")), "done 0 (worker); lost a"},
			{"C14: one of two workers of a node is through", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), func(x *situation) { x.World.Slots = 2 }, ended("a", 0, 0), ended("b", 0, -1)), "nothing"},
			{"C14: one node is gone without a word", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), crashed("b"), commit(3, "a")), "propose 2 (node-lost): a c from 3; evicts b; lost b"},
			{"C14: a word of another life", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), bornAgain("b"), func(x *situation) { x.Exits["b"] = rendezvous.Exit{Incarnation: "new-b", Codes: []*int{new(0)}} }), "propose 2 (node-lost): a b'; without b; lost b"},
			{"a node is lost while another goes on", given(aJob(3).here("a", "b", "c", "d").world(Finishing, "a", "b", "c"), ended("a", 0), crashed("b")), "nothing"},
			{"a worker failed while another goes on", given(aJob(3).here("a", "b", "c").world(Finishing, "a", "b", "c"), ended("a", 0), ended("b", 1), failure("b", 1, time.Minute)), "nothing"},
			{"a worker failed and the others are through", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), ended("b", 1), failure("b", 1, time.Minute)), "propose 2 (worker-failed): a b; the failure spent a restart"},
			{"a worker failed, and the record of it is on its way", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), ended("b", 1)), "nothing"},
			{"a worker failed, and its node is gone before it could say more", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), ended("b", 1), crashed("b")), "propose 2 (node-lost): a c; evicts b; lost b"},
			{"one is cut off, and says that its workers ended: its word is waited for", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), cutOff("b", 9*time.Second), endedThere("b")), "nothing for 500ms"},
			{"past the window it is dropped", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), cutOff("b", 10*time.Second), endedThere("b")), "propose 2 (node-lost): a c; without b; lost b"},
			{"one is cut off and goes on", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), cutOff("b", time.Hour)), "nothing"},
			{"another wish", given(aJob(2).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), asksFor(3)), "nothing"},
			{"a newcomer", given(aRange(1, 4).here("a", "b", "c").world(Finishing, "a", "b"), ended("a", 0), call(time.Minute)), "nothing"},
			{"the finish timeout has not passed", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), since(time.Minute), rule(func(r *rendezvous.Rules) { r.FinishTimeout = rendezvous.Seconds(2 * time.Minute) })), "nothing for 1m0s"},
			{"the finish timeout has passed", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), since(2*time.Minute), rule(func(r *rendezvous.Rules) { r.FinishTimeout = rendezvous.Seconds(2 * time.Minute) })), "propose 2 (node-lost): a b"},
			{"a stop: the workers save first", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), asksToStop), "hold (draining) planned, stop"},
			{"a stop, and all are through: done", given(aJob(2).here("a", "b").world(Finishing, "a", "b"), ended("a", 0), ended("b", 0), asksToStop), "done 0 (worker)"},
		}},
		{"waiting for a planned change", []planned{
			{"nobody saved yet", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale)), "nothing for 32s"},
			{"one saved", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a")), "nothing for 32s"},
			{"all saved, and the last call was while they trained", given(aRange(1, 4).here("a", "b", "c").world(Waiting, "a", "b"), asksFor(4), savingFor(rendezvous.CauseScale), savedBy("a", "b"), lastCall, call(4*time.Second)), "propose 2 (scale): a b c"},
			{"all saved", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a", "b"), commit(2, "a", "b")), "propose 2 (scale): a b c from 2"},
			{"a word of another life", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a"), func(x *situation) { x.Exits["b"] = rendezvous.Exit{Incarnation: "new-b", Planned: true} }), "nothing for 32s"},
			{"scale in: who is cut is a leaver", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b", "c"), asksFor(2), savingFor(rendezvous.CauseScale), savedBy("a", "b", "c")), "propose 2 (scale): a b; leaving c"},
			{"scale in: the holder keeps its place", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), asksFor(1), savingFor(rendezvous.CauseScale), savedBy("a", "b"), commit(2, "b")), "propose 2 (scale): b from 2; leaving a"},
			{"drain: who is asked to go is a leaver", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), asksToGo("a"), savingFor(rendezvous.CauseDrain), savedBy("a", "b")), "propose 2 (drain): c b; leaving a"},
			{"one saved and the other's worker ended of itself", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a"), ended("b", 1)), "propose 2 (scale): a b c"},
			{"the grace has passed", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a"), since(32*time.Second)), "propose 2 (scale): a b c"},
			{"the grace has passed, and rank 0 moves bytes", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("b"), since(time.Minute), doing("a", "saving")), "nothing"},
			{"the grace has passed, and rank 1 moves bytes", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a"), since(time.Minute), doing("b", "saving")), "propose 2 (scale): a b c"},
			{"a member is lost before it saved: the save is over", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), crashed("b")), "propose 2 (scale): a c; evicts b; lost b"},
			{"C18: a member saved and was lost: the others go on saving", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("b"), crashed("b")), "nothing for 32s"},
			{"C18: a member saved and left: the others go on saving", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseDrain), wentAway("b")), "nothing for 32s"},
			{"it left, and the others saved", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseDrain), wentAway("b"), savedBy("a")), "propose 2 (drain): a c; without b"},
			{"the wish was taken back: the Hold is a cause by itself", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a", "b")), "propose 2 (scale): a b"},
			{"all saved, too few nodes", given(aJob(3).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a", "b")), "nothing"},
			{"all ended with 0 meanwhile: done", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), ended("a", 0), ended("b", 0)), "done 0 (worker)"},
			{"all were stopped with 0: not done", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), func(x *situation) {
				for _, n := range []string{"a", "b"} {
					x.Exits[n] = rendezvous.Exit{Incarnation: ref(n).Incarnation, Codes: []*int{new(0)}, Planned: true}
				}
			}), "propose 2 (scale): a b"},
			{"a stop while saving", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a"), asksToStop), "nothing for 32s"},
			{"a stop, all saved", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), savedBy("a", "b"), asksToStop), "stopped 93 (operator)"},
			{"a stop, and a member is lost while saving", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), crashed("b"), asksToStop), "stopped 93 (operator); lost b"},
			{"a stop, and all ended with 0 meanwhile: done", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), savingFor(rendezvous.CauseScale), ended("a", 0), ended("b", 0), asksToStop), "done 0 (worker)"},
		}},
		{"waiting for nodes or for a back-off", []planned{
			{"too few", given(aJob(2).here("a").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), vanished("b"), func(x *situation) { x.World.ReportedLost = []incarnation{ref("b").Incarnation} }), "nothing"},
			{"another node came", given(aJob(2).here("a", "c").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), vanished("b"), func(x *situation) { x.World.ReportedLost = []incarnation{ref("b").Incarnation} }), "propose 2 (node-lost): a c; without b"},
			{"the lost one lives again", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), bornAgain("b"), func(x *situation) { x.World.ReportedLost = []incarnation{ref("b").Incarnation} }), "propose 2 (node-lost): a b'; without b"},
			{"the lost one answers again: the Hold is a cause by itself", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)), "propose 2 (node-lost): a b"},
			{"one more is lost: it is told of", given(aJob(3).here("a", "b").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), vanished("c"), crashed("b"), func(x *situation) { x.World.ReportedLost = []incarnation{ref("c").Incarnation} }), "hold (nodes-missing); lost b"},
			{"a leaver is lost without a word: it is told", given(aJob(2).here("a").world(Waiting, "a", "b"), leaving("c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("b"), vanished("c")), "hold (nodes-missing); lost c"},
			{"a leaver left, came back and left again: it was not lost", given(aJob(2).here("a").world(Waiting, "a", "b"), leaving("c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("b"), vanished("c"), func(x *situation) {
				x.Left = append(x.Left, membership.Left{Node: "c", Incarnation: "later"})
			}), "nothing"},
			{"a member is in doubt: a verdict is waited for", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), doubted("b")), "nothing for 500ms"},
			{"no verdict came: it is planned with", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), doubted("b"), doubtFor(1500*time.Millisecond)), "propose 2 (node-lost): a b"},
			{"one that was found gone is in doubt for me: not before it answers", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), doubted("b"), doubtFor(time.Hour), func(x *situation) { x.World.ReportedLost = []incarnation{ref("b").Incarnation} }), "nothing"},
			{"a member is cut off: it blocks for the window", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), cutOff("b", 9*time.Second)), "nothing for 500ms"},
			{"past the window it is dropped", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), cutOff("b", 10*time.Second)), "propose 2 (node-lost): a c; without b; lost b"},
			{"a member that was told lost is dropped: it is told once", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksFor(2), cutOff("c", time.Second), func(x *situation) { x.World.ReportedLost = []incarnation{ref("c").Incarnation} }), "propose 2 (node-lost): a b; without c"},
			{"a member that np cuts does not block", given(aJob(3).here("a", "b", "c").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksFor(2), cutOff("c", time.Second)), "propose 2 (node-lost): a b; without c; lost c"},
			{"np cuts by who is left, not by rank: with one lost, the highest is needed, and blocks", given(aJob(3).here("b", "d").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksFor(2), wentAway("a"), cutOff("c", time.Second)), "nothing for 500ms"},
			{"one lives again, and has its rank: the highest is cut", given(aJob(3).here("a", "b").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksFor(2), bornAgain("a"), cutOff("c", time.Second)), "propose 2 (node-lost): a' b; without a c; lost a c"},
			{"with one asked to go, too", given(aJob(3).here("a", "b", "d").world(Waiting, "a", "b", "c"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksFor(2), func(x *situation) { x.Wish.Drain = []string{"a"} }, cutOff("c", time.Second)), "nothing for 500ms"},
			{"a range above MIN: a last call", given(aRange(1, 3).here("a").world(Waiting, "a", "b"), lastCall, holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("b"), call(time.Second)), "nothing for 2s"},
			{"the last call is over", given(aRange(1, 3).here("a").world(Waiting, "a", "b"), lastCall, holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), wentAway("b"), call(3*time.Second)), "propose 2 (node-lost): a; without b"},
			{"a member left a range: those who saved go on at once", given(aRange(1, 3).here("a").world(Waiting, "a", "b"), lastCall, holding(rendezvous.Saving, rendezvous.CauseDrain), wentAway("b"), call(0)), "propose 2 (drain): a; without b"},
			{"a member left, below MIN: whoever comes is waited for as before the first world", given(aRange(2, 4).here("a", "c").world(Waiting, "a", "b"), lastCall, holding(rendezvous.Saving, rendezvous.CauseDrain), wentAway("b"), call(time.Second)), "nothing for 2s"},
			{"the back-off has not passed", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), since(time.Second), func(x *situation) {
				x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(2 * time.Second), Cause: rendezvous.CauseWorkerFailed})
			}), "nothing for 1s"},
			{"the back-off has passed", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), since(2*time.Second), func(x *situation) {
				x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(2 * time.Second), Cause: rendezvous.CauseWorkerFailed})
			}), "propose 2 (worker-failed): a b"},
			{"the back-off has passed, a node is lost", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), since(2*time.Second), crashed("b"), func(x *situation) {
				x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(2 * time.Second), Cause: rendezvous.CauseWorkerFailed})
			}), "hold (nodes-missing); lost b"},
			{"no batch plan for who is here: once it is said, nothing", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.PlanImpossible, rendezvous.CauseScale), impossible), "nothing"},
			{"no batch plan for who is here", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseScale), impossible), "hold (plan-impossible)"},
			{"a stop: at once", given(aJob(2).here("a").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), asksToStop), "stopped 93 (operator)"},
			{"a stop in the back-off: at once", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), asksToStop, func(x *situation) {
				x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(30 * time.Second)})
			}), "stopped 93 (operator)"},
			{"all ended with 0 after the Hold was written: done", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), ended("a", 0), ended("b", 0)), "done 0 (worker)"},
			{"all agents died and came back", given(aJob(2).here("a", "b").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), bornAgain("a"), bornAgain("b")), "propose 2 (node-lost): a' b'; without a b; lost a b"},
		}},
		{"quarantine", []planned{
			{"the Hold has it in quarantine: another who came meanwhile takes its place", given(aJob(2).here("a", "b", "c").world(Waiting, "a", "b"), holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost), quarantine("b", 3)), "propose 2 (node-lost): a c; leaving b; quarantine b until 3"},
			{"a node that is in it is no spare, as long as there are enough others", given(aJob(2).here("a", "b", "c", "d").world(Running, "a", "b"), crashed("b"), quarantine("c", 2)), "propose 2 (node-lost): a d; evicts b; lost b; quarantine c until 2"},
			{"without it there would be no world: it gets another chance", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("b"), quarantine("c", 2)), "propose 2 (node-lost): a c; evicts b; lost b; quarantine c until 2"},
			{"it has passed", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("b"), quarantine("c", 1)), "propose 2 (node-lost): a c; evicts b; lost b; quarantine c until 1"},
			{"it is forgotten after a while", given(aJob(2).here("a", "b", "c").world(Running, "a", "b"), crashed("b"), generation(4), quarantine("c", 1)), "propose 5 (node-lost): a c; evicts b; lost b"},
		}},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.rows {
				if got := told(c.moment.plan()); got != c.want {
					t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
				}
			}
		})
	}
}

type planned struct {
	name   string
	moment *situation
	want   string
}
