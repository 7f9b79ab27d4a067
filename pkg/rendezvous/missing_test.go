package rendezvous_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A killed spare is no cause for another World. Its loss is reported, unless it left or is
// registered again.
func TestMissingNodesAreReported(t *testing.T) {
	with := func(nodes ...string) *situation {
		return given(aJob(2).here(nodes...).world(rendezvous.Running, "a", "b"))
	}
	gone := func(facts ...fact) *situation {
		x := with("a", "b")
		for _, f := range facts {
			f(x)
		}
		return x
	}
	for _, c := range []struct {
		name   string
		before *situation
		after  *situation
		quiet  time.Duration // nothing is observed for so long
		want   []string      // at once, after 4 s, after 5 s, after 60 s
	}{
		{"a spare", with("a", "b", "c"), gone(), 0,
			[]string{"nothing for 5s", "nothing for 1s", "tell; lost c", "tell; lost c"}},
		{"it was reported", with("a", "b", "c"),
			gone(func(x *situation) { x.Missed = map[incarnation]bool{ref("c").Incarnation: true} }), 0,
			[]string{"nothing", "nothing", "nothing", "nothing"}},
		{"it left", with("a", "b", "c"), gone(wentAway("c")), 0,
			[]string{"nothing", "nothing", "nothing", "nothing"}},
		{"it is back as another life", with("a", "b", "c"), gone(bornAgain("c")), 0,
			[]string{"nothing", "nothing", "nothing", "nothing"}},
		{"it became a member: that is judged", with("a", "b", "c"),
			given(aJob(2).here("a").world(rendezvous.Forming, "a", "c"), generation(2), vanished("c")), 0,
			[]string{"hold (nodes-missing); lost c", "hold (nodes-missing); lost c",
				"hold (nodes-missing); lost c", "hold (nodes-missing); lost c"}},
		{"another generation began since", with("a", "b", "c"), gone(generation(2)), 0,
			[]string{"nothing for 5s", "nothing for 1s", "tell; lost c", "tell; lost c"}},
		{"two of them, and one is reported already", with("a", "b", "c", "d", "e"),
			gone(func(x *situation) { x.Missed = map[incarnation]bool{ref("d").Incarnation: true} }), 0,
			[]string{"nothing for 5s", "nothing for 1s", "tell; lost c e", "tell; lost c e"}},
		{"before the first world", given(aJob(3).here("a", "b")), given(aJob(3).here("b")), 0,
			[]string{"nothing for 5s", "nothing for 1s", "tell; lost a", "tell; lost a"}},
		{"there is something to do", given(aJob(2).here("a", "c")), given(aJob(2).here("a", "b")), 0,
			[]string{"propose 1 (first): a b", "propose 1 (first): a b", "propose 1 (first): a b",
				"propose 1 (first): a b"}},
		{"the attempt is over", with("a", "b", "c"),
			given(aJob(2).here("a", "b").world(rendezvous.Done, "a", "b")), 0,
			[]string{"nothing", "nothing", "nothing", "nothing"}},
		{"no keeper looked for a while: it may have left", with("a", "b", "c"), gone(), 4 * time.Second,
			[]string{"nothing", "nothing", "nothing", "nothing"}},
	} {
		var m plan.Observed
		look := func(x *situation, at time.Time) string {
			v := x.view()
			m.Update(&x.Snapshot, v, at)
			step := plan.Next(plan.Facts{Snapshot: &x.Snapshot, View: v, Observed: m,
				Timeouts: plan.DefaultTimeouts, Now: at})
			if wait, idle := step.(plan.Nothing); idle && !wait.Until.IsZero() {
				step = plan.Nothing{Until: wait.Until.Add(-at.Sub(noon))} // stepText counts from noon
			}
			return stepText(step)
		}
		look(c.before, noon)
		var got []string
		at := noon.Add(c.quiet)
		for after := time.Duration(0); after <= time.Minute; after += time.Second {
			s := look(c.after, at.Add(after))
			if slices.Contains([]time.Duration{0, 4 * time.Second, 5 * time.Second, time.Minute}, after) {
				got = append(got, s)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// Followers of the job see that a loss was reported, so that no other node reports it again.
func TestReportedLossesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoredJob(t, memory.New().Client("test"), "x")
		stageMissing(w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		found := follow.Reader{Store: w.Store, Job: w.Job, Node: "b"}.Follow(ctx, follow.ScopeAll)
		if s := <-found; len(s.Missed) > 0 || len(s.Events) > 0 {
			t.Fatalf("before: reported %v, %d events", s.Missed, len(s.Events))
		}
		w.must(tells(w)())
		if s, ok := <-found; !ok || !s.Missed[w.nodes["c"].Incarnation] {
			t.Fatal("a node that follows does not see it")
		}
		s := w.see()
		var reported []history.Event
		for _, e := range s.Events {
			if e.Kind == history.NodeLost {
				reported = append(reported, e)
			}
		}
		if len(reported) != 1 || reported[0].Node != "c" || reported[0].Generation != 1 ||
			reported[0].Text != "c was lost (lease expired)" || !s.Missed[w.nodes["c"].Incarnation] {
			t.Errorf("%+v, reported %v", reported, s.Missed)
		}
		if nodes := status.Explain(s, reported[0].Time).Nodes; nodes[len(nodes)-1].Node != "c" ||
			nodes[len(nodes)-1].State != status.NodeLost {
			t.Errorf("status lists %+v", nodes)
		}
	})
}

// The announcement of a node that left stays until all nodes had time to see it.
func TestDepartureIsRemembered(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b", "c").run("a", "b")
	w.must(w.reg.Leave(t.Context(), w.nodes["c"], 1, membership.Terminated))
	w.propose("a", "b")
	if len(w.see().Left) != 1 {
		t.Error("generation 2: that c left is forgotten")
	}
	w.propose("a", "b")
	if len(w.see().Left) != 0 {
		t.Error("generation 3: that c left is kept for ever")
	}
}

// A loss is reported with the reason why the node was dropped, and the time since the first sign.
func TestReasonsOfALoss(t *testing.T) {
	late := func(facts ...fact) *situation {
		return given(aJob(2).here("a", "b", "c").world(rendezvous.Forming, "a", "b"),
			append([]fact{ready("a"), since(30 * time.Second)}, facts...)...)
	}
	running := func(f fact) *situation {
		return given(aJob(2).here("a", "b", "c").world(rendezvous.Running, "a", "b"), f,
			func(x *situation) { x.m.FirstSign = noon.Add(-40 * time.Millisecond) })
	}
	for name, c := range map[string]struct {
		moment *situation
		want   string
	}{
		"it answers, and is not ready": {late(), "not-ready (not ready in time) 0s"},
		"it is in doubt for long, and not ready": {late(doubted("b"), doubtFor(20*time.Second)),
			"not-ready (not ready in time) 0s"},
		"it is dead, and was not ready": {late(crashed("b")), "agent-gone (agent gone) 0s"},
		"it is dead":                    {running(crashed("b")), "agent-gone (agent gone) 40ms"},
		"it was replaced by its next life": {running(bornAgain("b")),
			"agent-gone (agent gone) 40ms"},
		"it is cut off from the store for too long": {running(cutOff("b", time.Minute)),
			" (lease expired) 40ms"},
	} {
		p, ok := c.moment.plan().(plan.Propose)
		if !ok || len(p.Lost) != 1 {
			t.Errorf("%s: %s", name, stepText(c.moment.plan()))
			continue
		}
		l := p.Lost[0]
		if got := fmt.Sprintf("%s (%s) %s", l.Reason, l.Why, l.After); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
