package rendezvous_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// TestMain raises the number of checks of each property from rapid's hundred, unless the command
// line sets it. A failure prints its seed and leaves no file, because planted bugs fail here on
// purpose.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "500", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// anyMoment draws a state of any phase with up to nine nodes. Most of these states never occur.
func anyMoment(t *rapid.T) *situation {
	yes := func(name string, of10 int) bool { return rapid.IntRange(0, 9).Draw(t, name) < of10 }
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	pick := func(name string, from []string, most int) []string {
		return rapid.Permutation(from).
			Draw(t, name)[:rapid.IntRange(0, min(most, len(from))).Draw(t, name+" count")]
	}
	np := rapid.IntRange(1, 5).Draw(t, "np")
	s := aJob(np)
	if yes("range", 5) {
		lo := rapid.IntRange(1, np).Draw(t, "min")
		s = aRange(lo, rapid.IntRange(np, 6).Draw(t, "max"))
		s.Wish.NP = np
	}
	s.Job.Rules.LastCall = rendezvous.Seconds(3 * time.Second)
	here := pick("here", names, len(names))
	slices.Sort(here)
	s.here(here...)
	if yes("no world", 1) {
		x := given(s)
		if yes("call", 5) {
			call(rapid.SampledFrom([]time.Duration{0, time.Second, 3 * time.Second}).Draw(t, "call since"))(x)
		}
		if yes("commit", 5) {
			commit(3, pick("holders", names, 2)...)(x)
		}
		return x
	}
	phase := rapid.SampledFrom([]rendezvous.Phase{rendezvous.Forming, rendezvous.Running, rendezvous.Running,
		rendezvous.Finishing, rendezvous.Waiting, rendezvous.Waiting, rendezvous.Done, rendezvous.Failed,
		rendezvous.Stopped}).
		Draw(t, "phase")
	members := rapid.Permutation(names).Draw(t, "members")[:rapid.IntRange(1, 4).Draw(t, "size")]
	s.world(phase, members...)
	others := slices.DeleteFunc(slices.Clone(names),
		func(n string) bool { return slices.Contains(members, n) })
	x := given(s, leaving(pick("leavers", others, 2)...))
	old := nodesOf(x.refs())
	generation(schema.Generation(rapid.IntRange(1, 3).Draw(t, "generation")))(x)
	since(rapid.SampledFrom([]time.Duration{0, time.Second, 31 * time.Second, time.Hour}).Draw(t, "since"))(x)
	if phase == rendezvous.Waiting {
		switch rapid.IntRange(0, 2).Draw(t, "hold") {
		case 0:
			savingFor(rendezvous.CauseScale)(x)
		case 1:
			holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost)(x)
		default:
			x.hold(rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(2 * time.Second),
				Cause: rendezvous.CauseWorkerFailed})
		}
	}
	for _, n := range old {
		there := x.Node(n) != nil
		switch k := rapid.IntRange(0, 13).Draw(t, "fate of "+n); {
		case k < 6 && there, k < 2:
		case k < 6: // not registered, and nothing else is known
			cutOff(n, 0)(x)
			delete(x.ev.Answers, ref(n).Incarnation)
		case k == 6 && there:
			doubted(n)(x)
		case k == 7 && there:
			crashed(n)(x)
		case k == 8:
			vanished(n)(x)
		case k == 9:
			cutOff(n, rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Minute}).
				Draw(t, "cut since"))(x)
		case k == 10:
			wentAway(n)(x)
		case k == 11:
			bornAgain(n)(x)
		}
		if yes("ready "+n, 6) {
			ready(n)(x)
		}
		switch rapid.IntRange(0, 5).Draw(t, "exit of "+n) {
		case 0:
			savedBy(n)(x)
		case 1:
			ended(n, rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "code"))(x)
		case 2:
			ended(n, 0)(x)
		}
	}
	if yes("failure", 2) {
		failure(members[0], rapid.SampledFrom([]int{1, 101}).Draw(t, "code"),
			rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "reported"))(x)
		restartsUsed(rapid.IntRange(0, 3).Draw(t, "used"))(x)
	}
	if yes("commit", 5) {
		commit(3, pick("holders", names, 3)...)(x)
		for _, n := range pick("say what they hold", names, 3) {
			has(n, rapid.SampledFrom([]checkpoint.Number{2, 3}).Draw(t, "number of "+n))(x)
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "wish") {
	case 0:
		asksFor(rapid.IntRange(x.Job.Limits.Min, max(x.Job.Limits.Min, x.Job.Limits.Max)).
			Draw(t, "asked np"))(x)
	case 1:
		asksToGo(pick("asked to go", names, 2)...)(x)
	case 2:
		if yes("stop", 5) {
			asksToStop(x)
		}
	}
	if yes("another attempt", 1) {
		newAttempt(x)
	}
	if yes("quarantine", 2) {
		quarantine(names[rapid.IntRange(0, 8).Draw(t, "node")], x.World.Generation+
			schema.Generation(rapid.IntRange(0, 2).Draw(t, "until")))(x)
	}
	if yes("the books are closed", 5) {
		closed(x)
	}
	if yes("a failure was charged", 3) {
		x.World.Ledger.Used = rapid.IntRange(1, 3).Draw(t, "charged used")
		x.World.Ledger.Charged = x.World.Generation - schema.Generation(rapid.IntRange(0, 1).
			Draw(t, "charged"))
	}
	x.World.Ledger.Lost = rapid.IntRange(0, 2).Draw(t, "lost before")
	if yes("some were reported", 2) {
		x.World.ReportedLost = []incarnation{ref(members[0]).Incarnation}
	}
	if yes("seen", 1) && len(x.Nodes) > 0 {
		x.Nodes[0].LastGeneration = x.World.Generation + 1
	}
	return x
}

func check(t *testing.T, law func(t *rapid.T, x *situation, step plan.Step)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		x := anyMoment(t)
		step := x.plan()
		t.Logf("%s", stepText(step))
		law(t, x, step)
	})
}

// registered reports whether the store holds that very life.
func (x *situation) registered(r membership.Ref) bool {
	n := x.Node(r.Node)
	return n != nil && n.Incarnation == r.Incarnation
}

func TestPlanIsPure(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		before, _ := json.Marshal(x.Snapshot)
		again := x.plan()
		after, _ := json.Marshal(x.Snapshot)
		if string(before) != string(after) {
			t.Fatalf("it changed what it was given:\n%s\n%s", before, after)
		}
		if a, b := fmt.Sprintf("%+v", step), fmt.Sprintf("%+v", again); stepText(step) != stepText(again) ||
			len(a) != len(b) {
			t.Fatalf("the same moment, another step:\n%s\n%s", a, b)
		}
	})
}

// G1: which nodes are in a world, and at which rank.
func TestWorldsAreSound(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		p, ok := step.(plan.Propose)
		if !ok {
			return
		}
		w := p.World
		if w.Count != len(w.Members) || w.Phase != rendezvous.Forming || w.Attempt != x.Job.Attempt ||
			w.UID != x.Job.UID {
			t.Fatalf("%+v", w)
		}
		if n := w.Count; n < max(1, x.Job.Limits.Min) && !x.Job.Limits.Exact || n > x.Wish.NP ||
			x.Job.Limits.Exact && n != x.Wish.NP {
			t.Fatalf("%d nodes, np is %d, limits %s", n, x.Wish.NP, x.Job.Limits)
		}
		view := x.view()
		names := map[string]bool{}
		for _, m := range w.Members {
			n := x.Node(m.Node)
			seen := view.Find(m)
			switch {
			case names[m.Node]:
				t.Fatalf("%s has two ranks", m.Node)
			case n == nil || n.Incarnation != m.Incarnation:
				t.Fatalf("%s is not registered as that life", m.Node)
			case n.Attempt != x.Job.Attempt:
				t.Fatalf("%s is of attempt %d", m.Node, n.Attempt)
			case seen != nil && seen.State == verdict.Gone:
				t.Fatalf("%s is gone (%s)", m.Node, seen.Reason)
			case slices.Contains(x.Wish.Drain, m.Node):
				t.Fatalf("%s is asked to go", m.Node)
			}
			names[m.Node] = true
		}
		top := x.Fence
		for _, n := range x.Nodes {
			top = max(top, n.LastGeneration)
		}
		if w.Generation != top+1 {
			t.Fatalf("generation %d, the largest that any node read is %d", w.Generation, top)
		}
		if x.Head.Number > 0 && (w.Resume == nil || w.Resume.Number != x.Head.Number ||
			w.Resume.Manifest != x.Head.Manifest) || x.Head.Number == 0 && w.Resume != nil {
			t.Fatalf("it resumes from %+v, the newest is %d", w.Resume, x.Head.Number)
		}
	})
}

// I4, C4, C11: every earlier member is a member, or stops before the new workers start, or the
// guards show that it is not registered.
func TestNoEarlierMemberIsForgotten(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		p, ok := step.(plan.Propose)
		if !ok || x.World == nil {
			return
		}
		has := func(seen []verdict.Member, r membership.Ref) *verdict.Member {
			if i := slices.IndexFunc(seen, func(s verdict.Member) bool { return s.Same(r) }); i >= 0 {
				return &seen[i]
			}
			return nil
		}
		for _, o := range x.refs() {
			places := 0
			if p.World.Rank(o) >= 0 {
				places++
			}
			if p.World.Leaver(o) {
				places++
			}
			if s := has(p.Evicted, o); s != nil {
				places++
				seen := x.view().Find(o)
				toldLost := seen.State == verdict.Suspect &&
					slices.Contains(x.World.ReportedLost, o.Incarnation)
				if seen.State != verdict.Gone && !toldLost && !heldUp(x, p.World, o.Node) ||
					!x.registered(o) ||
					s.Rev != x.Node(o.Node).Rev {
					t.Fatalf("%s is evicted: %+v", o.Node, s)
				}
			}
			if s := has(p.Dropped, o); s != nil {
				places++
				rev := int64(0)
				if n := x.Node(o.Node); n != nil {
					rev = n.Rev
				}
				if x.registered(o) || s.Rev != rev {
					t.Fatalf("%s is said to be unregistered at %d: %+v", o.Node, rev, s)
				}
			}
			if places != 1 {
				t.Fatalf("%s of before has %d places in the next generation", o.Node, places)
			}
		}
		if n := len(p.World.Leavers) + len(p.Evicted) + len(p.Dropped); n > len(x.refs()) {
			t.Fatalf("%d leave, of %d that were there", n, len(x.refs()))
		}
	})
}

// Survivors keep their rank, except for one exchange that brings a holder to rank 0. Only that
// holder can replace a survivor, and only if there is no newcomer to replace.
func TestLeastMovement(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		p, ok := step.(plan.Propose)
		if !ok || x.World == nil {
			return
		}
		w := p.World
		moved := 0
		for rank, o := range x.World.Members {
			if now := w.Rank(o); rank < w.Count && now >= 0 && now != rank {
				moved++
			}
		}
		if moved > 2 {
			t.Fatalf("%d survivors changed their rank", moved)
		}
		if moved > 0 && !holds(x, w.Members[0].Node) {
			t.Fatalf("%d survivors changed their rank, and rank 0 has no checkpoint", moved)
		}
		survivors, out, allowed, newcomers := 0, 0, 0, 0
		for _, m := range w.Members[1:] {
			if !slices.ContainsFunc(x.World.Members,
				func(o membership.Ref) bool { return o.Node == m.Node }) {
				newcomers++
			}
		}
		for rank, o := range x.World.Members {
			if may(x, o) && !heldUp(x, w, o.Node) {
				if survivors++; w.Rank(o) < 0 {
					out++
				}
			}
			if rank < w.Count && slices.ContainsFunc(w.Members, func(m membership.Ref) bool {
				return m.Node == o.Node && !m.Same(o)
			}) {
				// the next incarnation of a member has its rank, before survivors whose rank no
				// longer exists
				allowed++
			}
		}
		if x.World.Rank(w.Members[0]) < 0 && holds(x, w.Members[0].Node) && newcomers == 0 {
			allowed++
		}
		if out > max(0, survivors-w.Count)+allowed {
			t.Fatalf("%d of %d survivors are out of a world of %d", out, survivors, w.Count)
		}
	})
}

// I6: a node that may register again soon is left out only because of np, never for a newcomer.
func TestAbsentMemberKeepsItsPlace(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		p, ok := step.(plan.Propose)
		if !ok || x.World == nil || x.World.Attempt != x.Job.Attempt {
			return
		}
		newcomer := slices.IndexFunc(p.World.Members, func(m membership.Ref) bool {
			return !slices.ContainsFunc(x.World.Members,
				func(o membership.Ref) bool { return o.Node == m.Node })
		})
		if newcomer < 0 || newcomer == 0 && holds(x, p.World.Members[0].Node) {
			return
		}
		view := x.view()
		for _, o := range x.World.Members {
			if s := view.Find(o); s.State == verdict.Absent && !s.PastWindow && !s.WorkerFailed &&
				!slices.Contains(x.Wish.Drain, o.Node) &&
				!heldUp(x, p.World, o.Node) {
				t.Fatalf("%s may register again, and %s has its place",
					o.Node, p.World.Members[newcomer].Node)
			}
		}
	})
}

// may reports whether the next World may have that incarnation. It states the rule a second time.
func may(x *situation, r membership.Ref) bool {
	n := x.Node(r.Node)
	if n == nil || n.Incarnation != r.Incarnation || n.Attempt != x.Job.Attempt ||
		slices.Contains(x.Wish.Drain, r.Node) {
		return false
	}
	if w := x.World; w != nil {
		for _, q := range w.Quarantine {
			if q.Node == r.Node && q.Until > w.Generation {
				return false
			}
		}
		if seen := x.view().Find(r); seen != nil && (seen.State == verdict.Gone ||
			seen.State == verdict.Suspect && slices.Contains(w.ReportedLost, r.Incarnation)) {
			return false
		}
	}
	return true
}

// heldUp reports whether w leaves node out because node held up the barrier.
func heldUp(x *situation, w rendezvous.World, node string) bool {
	return x.World != nil && slices.ContainsFunc(w.Quarantine, func(q rendezvous.Quarantine) bool {
		return q.Node == node && q.Until > x.World.Generation
	})
}

// holds reports whether node has the newest commit. A record of node that is newer than the commit
// decides.
func holds(x *situation, node string) bool {
	if x.Head.Number == 0 {
		return true
	}
	word, said := x.Held[node]
	if said && slices.Contains(word.Numbers, x.Head.Number) {
		return true
	}
	return !(said && word.Rev > x.Head.Rev) && x.Head.HeldBy(node)
}

func TestRankZeroGoesToAHolder(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		p, ok := step.(plan.Propose)
		if !ok || holds(x, p.World.Members[0].Node) {
			return
		}
		for _, n := range x.Nodes {
			if holds(x, n.Node) && may(x, n.Ref) && !heldUp(x, p.World, n.Node) {
				t.Fatalf("rank 0 is %s, and %s has the newest checkpoint", p.World.Members[0].Node, n.Node)
			}
		}
	})
}

// C7: a step is not taken twice. On the World that it made, with the same evidence and wish, no
// other World follows.
func TestStepsEnd(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		for i := range 6 {
			switch s := step.(type) {
			case plan.Propose:
				for _, e := range s.Evicted {
					x.Nodes = slices.DeleteFunc(x.Nodes,
						func(n membership.Node) bool { return n.Node == e.Node })
					x.ev.Absent[e.Incarnation] = noon
				}
				w := s.World
				x.World, x.Fence = &w, w.Generation
				x.Ready, x.Exits, x.Failure, x.Progress = map[string]rendezvous.Ready{},
					map[string]rendezvous.Exit{}, nil, nil
				x.Suspects = slices.DeleteFunc(x.Suspects, func(s membership.Suspicion) bool {
					return w.Rank(membership.Ref{Node: s.Node, Incarnation: s.Incarnation}) < 0
				})
				x.m = plan.Observed{PhaseSince: noon, SuspectSince: x.m.SuspectSince}
			case plan.Hold:
				x.World.Phase, x.World.Hold, x.World.Ledger = rendezvous.Waiting, &s.Hold, s.Ledger
				for _, l := range s.Lost {
					x.World.ReportedLost = append(x.World.ReportedLost, l.Incarnation)
				}
				x.m.PhaseSince = noon
			case plan.Run:
				x.World.Phase, x.World.Master, x.m.PhaseSince, x.m.RunningSince = rendezvous.Running,
					&s.Master, noon, noon
			case plan.Finish:
				x.World.Phase, x.m.PhaseSince = rendezvous.Finishing, noon
			case plan.End:
				x.World = &rendezvous.World{Phase: s.Phase, Attempt: x.Job.Attempt}
				x.m.PhaseSince = noon
			case plan.Nothing:
				return
			}
			was := step
			step = x.plan()
			t.Logf("then %s", stepText(step))
			if p, ok := step.(plan.Propose); ok {
				if q, ok := was.(plan.Propose); ok && p.World.Generation == q.World.Generation+1 &&
					slices.EqualFunc(p.World.Members, q.World.Members, membership.Ref.Same) {
					t.Fatal("the same world once more")
				}
			}
			if i == 5 {
				if _, idle := step.(plan.Nothing); !idle {
					t.Fatal("nothing happens, and the steps do not end")
				}
			}
		}
	})
}

// G8, I7, C14: a job is done only if every member reported that all its workers ended with 0. An
// ended attempt stays ended.
func TestEnds(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		w := x.World
		all := w != nil && len(w.Members) > 0
		if w != nil {
			for _, m := range w.Members {
				e, ok := x.Exits[m.Node]
				all = all && ok && e.Incarnation == m.Incarnation && e.Zero() && len(e.Codes) == w.Slots
			}
			if w.Phase.Ended() && (w.Attempt == x.Job.Attempt || w.Phase == rendezvous.Done) {
				if _, idle := step.(plan.Nothing); !idle {
					t.Fatalf("the attempt is over (%s), and: %s", w.Phase, stepText(step))
				}
				return
			}
		}
		end, ends := step.(plan.End)
		switch {
		case ends && end.Phase == rendezvous.Done &&
			!(all && (w.Phase == rendezvous.Finishing || w.Phase == rendezvous.Waiting) &&
				w.Attempt == x.Job.Attempt):
			t.Fatalf("done out of %s", w.Phase)
		case ends && end.Phase == rendezvous.Failed && end.Outcome.Code == 0:
			t.Fatal("failed with 0")
		case all && w.Attempt == x.Job.Attempt &&
			(w.Phase == rendezvous.Finishing || w.Phase == rendezvous.Waiting) &&
			!(ends && end.Phase == rendezvous.Done):
			t.Fatalf("every worker ended with 0, and: %s", stepText(step))
		}
	})
}

// The number of lost nodes agrees with the events: each reported loss is counted once, and nothing
// else is.
func TestLossesAreCountedWhereTheyAreReported(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		var lost []verdict.Member
		switch s := step.(type) {
		case plan.Propose:
			lost = s.Lost
		case plan.Hold:
			lost = s.Lost
		case plan.End:
			lost = s.Lost
		default:
			return
		}
		before := 0
		if x.World != nil && x.World.Attempt == x.Job.Attempt {
			before = x.World.Ledger.Lost
		}
		if got := books(step).Lost; got != before+len(lost) {
			t.Fatalf("%d were reported lost in all, and the books say %d", before+len(lost), got)
		}
		seen := map[incarnation]bool{}
		for _, l := range lost {
			if seen[l.Incarnation] || slices.Contains(x.World.ReportedLost, l.Incarnation) {
				t.Fatalf("%s is reported lost twice", l.Node)
			}
			seen[l.Incarnation] = true
		}
		if _, planned := step.(plan.Hold); planned {
			return
		}
		for _, m := range x.view().Members {
			if x.World.Attempt == x.Job.Attempt && m.State == verdict.Gone && m.Reason != "left" &&
				x.World.Rank(m.Ref) >= 0 &&
				!slices.Contains(x.World.ReportedLost, m.Incarnation) && !seen[m.Incarnation] {
				t.Fatalf("the generation is over, %s was lost (%s), and no event says so", m.Node, m.Reason)
			}
		}
	})
}

// A generation is settled once: its failure spends at most one restart, which is given back at most
// once.
func TestBooksAreClosedOnce(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		if x.World == nil || x.World.Attempt != x.Job.Attempt {
			return
		}
		before, after := x.World.Ledger, books(step)
		switch s := step.(type) {
		case plan.Propose:
		case plan.Hold:
			if s.Hold.Reason == "stop" {
				return
			}
		default:
			return
		}
		w := *x.World
		if after.Closed != w.Generation {
			t.Fatalf("the books of generation %d are open: %+v", w.Generation, after)
		}
		if before.Closed == w.Generation && after.Ran != before.Ran || after.Ran > before.Ran+1 {
			t.Fatalf("it ran %d times, and then %d", before.Ran, after.Ran)
		}
		uncharged := x.Failure == nil || before.Closed == w.Generation || after.Charged != w.Generation
		if after.Used > before.Used+1 || after.Used > before.Used && uncharged {
			t.Fatalf("charged without a failure: %+v, then %+v", before, after)
		}
		if after.Used == before.Used-1 && after.Charged != 0 {
			t.Fatalf("given back, and still charged: %+v, then %+v", before, after)
		}
	})
}

// The command that stops a job without nodes ends it, whatever is in the store.
func TestStopAloneEndsWhateverThereIs(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, _ plan.Step) {
		if x.World != nil && x.World.Phase.Ended() &&
			(x.World.Attempt == x.Job.Attempt || x.World.Phase == rendezvous.Done) {
			return
		}
		x.Nodes, x.Wish.Stop = nil, x.Job.Attempt
		if end := plan.StopWithoutNodes(&x.Snapshot, noon); end.Phase != rendezvous.Stopped &&
			end.Phase != rendezvous.Done {
			t.Fatalf("%s", stepText(end))
		}
	})
}

// A stop of this attempt ends every job that is not done.
func TestStopGoesFirst(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		if x.Wish.Stop != x.Job.Attempt {
			if end, ok := step.(plan.End); ok && end.Phase == rendezvous.Stopped {
				t.Fatal("no wish asked to stop this attempt")
			}
			return
		}
		switch s := step.(type) {
		case plan.Nothing:
		case plan.Hold:
			if !s.Hold.Planned || s.Hold.Reason != "stop" || x.World.Phase == rendezvous.Waiting {
				t.Fatalf("%s", stepText(step))
			}
		case plan.End:
			if s.Phase == rendezvous.Failed {
				t.Fatalf("%s", stepText(step))
			}
		default:
			t.Fatalf("the job is asked to stop, and: %s", stepText(step))
		}
	})
}

// The barrier is full before a World runs. Workers have saved before a planned change.
func TestNothingRunsBeforeTheBarrier(t *testing.T) {
	check(t, func(t *rapid.T, x *situation, step plan.Step) {
		switch step.(type) {
		case plan.Run:
			for _, m := range x.World.Members {
				if x.Ready[m.Node].Incarnation != m.Incarnation {
					t.Fatalf("%s is not ready", m.Node)
				}
			}
			for _, l := range x.World.Leavers {
				if x.registered(l) && x.Ready[l.Node].Incarnation != l.Incarnation {
					t.Fatalf("leaver %s has not stopped", l.Node)
				}
			}
		case plan.Propose:
			w := x.World
			if w == nil || w.Phase != rendezvous.Waiting || w.Attempt != x.Job.Attempt || !w.Hold.Planned ||
				x.m.PhaseSince.Add(32*time.Second).Before(noon) {
				return
			}
			lost := false
			view := x.view()
			for _, m := range w.Members {
				e, reported := x.Exits[m.Node]
				reported = reported && e.Incarnation == m.Incarnation && e.Ended()
				seen := view.Find(m)
				lost = lost || seen.State == verdict.Gone && seen.Reason != "left" && !reported
			}
			for _, m := range w.Members {
				e, reported := x.Exits[m.Node]
				reported = reported && e.Incarnation == m.Incarnation && e.Ended()
				if view.Find(m).State != verdict.Gone && !reported && !lost {
					t.Fatalf("%s has not saved", m.Node)
				}
			}
		}
	})
}
