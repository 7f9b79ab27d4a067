package status_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/scaling"
)

// The node that turns a World to running may be a newcomer. On every node, the time without
// training is that since the first node stopped its workers.
func TestIdleIsCountedFromTheFirstStop(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ready := func(rev, stop int64, after *int64) rendezvous.Ready {
		return rendezvous.Ready{Rev: rev, StopMS: stop, AfterMS: after}
	}
	for name, c := range map[string]struct {
		ready map[string]rendezvous.Ready
		want  time.Duration // a second after all were seen ready
	}{
		"one survivor, one newcomer": {map[string]rendezvous.Ready{"a": ready(1, 0, nil),
			"b": ready(2, 500, new(int64(40_000)))}, 41500 * time.Millisecond},
		"two survivors": {map[string]rendezvous.Ready{"a": ready(1, 100, new(int64(200))),
			"b": ready(2, 0, new(int64(900)))}, 1900 * time.Millisecond},
		"no node had workers": {map[string]rendezvous.Ready{"a": ready(1, 0, nil)}, 0},
	} {
		s := &rendezvous.Snapshot{Job: &rendezvous.Job{Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}},
			Ready: c.ready,
			World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming}}
		var o status.TimingObserver
		o.Observe(status.Look{Snapshot: s, Step: plan.Nothing{}, Now: noon})
		if got := o.Idle(noon.Add(time.Second)); got != c.want {
			t.Errorf("%s: %v without training, want %v", name, got, c.want)
		}
	}
}

// An event that does not end a running World is no sign of its end.
func TestFirstSign(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ref := func(node string) membership.Ref {
		return membership.Ref{Node: node, Incarnation: membership.Incarnation(node + "1")}
	}
	a, b, c, d := ref("a"), ref("b"), ref("c"), ref("d")
	nodes := func(refs ...membership.Ref) (list []membership.Node) {
		for _, r := range refs {
			list = append(list, membership.Node{Ref: r, Attempt: 1})
		}
		return list
	}
	job := &rendezvous.Job{Attempt: 1, Slots: 1, Base: scaling.Base{Nodes: 4, Slots: 1},
		Limits: rendezvous.Limits{Min: 1, Max: 4},
		Rules:  rendezvous.Rules{LastCall: rendezvous.Seconds(3 * time.Second)}}
	world := &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Running, Count: 2, Slots: 1,
		Request: "w", Members: []membership.Ref{a, b}, Leavers: []membership.Ref{c}}
	alive := verdict.Member{Ref: a, State: verdict.Alive, Registered: true}
	gone := func(r membership.Ref) verdict.Member {
		return verdict.Member{Ref: r, State: verdict.Gone, Reason: "agent-gone"}
	}
	left := verdict.View{Members: []verdict.Member{alive, {Ref: b, State: verdict.Alive, Registered: true},
		{Ref: c, State: verdict.Gone, Reason: "left"}}}
	lost := verdict.View{Members: []verdict.Member{alive, gone(b),
		{Ref: c, State: verdict.Gone, Reason: "left"}}}
	s := func(np int, request string, here ...membership.Ref) *rendezvous.Snapshot {
		return &rendezvous.Snapshot{Job: job, World: world,
			Wish: rendezvous.Wish{NP: np, Request: request, Rev: 1}, Nodes: nodes(here...)}
	}
	for name, x := range map[string]struct {
		before, after *rendezvous.Snapshot
		was, is       verdict.View
		sign          string
	}{
		"a leaver that left long ago": {s(2, "w", a, b), s(1, "v", a, b), left, left, rendezvous.SignWish},
		"a loss during a last call": {s(4, "w", a, b, d), s(4, "w", a, d), left, lost,
			string(membership.LeaseExpired)},
		"more nodes, and a wish for more": {s(2, "w", a, b), s(4, "v", a, b, d), left, left,
			rendezvous.SignWish},
		"more nodes come to a job with room": {s(4, "w", a, b), s(4, "w", a, b, d), left, left,
			rendezvous.SignNodes},
	} {
		var o status.TimingObserver
		o.Observe(status.Look{Snapshot: x.before, View: x.was, Step: plan.Nothing{}, Now: noon})
		at := noon.Add(time.Hour)
		o.Observe(status.Look{Snapshot: x.after, View: x.is, Step: plan.Hold{}, Now: at})
		if got := o.Timing("a"); got.Sign != x.sign || o.Sign() != at {
			t.Errorf("%s: the sign is %q since %v, want %q since %v", name, got.Sign, o.Sign(), x.sign, at)
		}
	}
}

func TestStartsAreCountedByCause(t *testing.T) {
	w := rendezvous.World{Cause: rendezvous.CauseFirst}
	w.CountStart(0)
	if len(w.Causes) != 0 {
		t.Errorf("the first start is counted: %v", w.Causes)
	}
	for range 2 {
		before := w.Causes
		w = rendezvous.World{Cause: rendezvous.CauseNodeLost, Previous: 2, Causes: w.Causes}
		w.CountStart(1500 * time.Millisecond)
		if before[rendezvous.CauseNodeLost] == w.Causes[rendezvous.CauseNodeLost] {
			t.Error("counting changed the world before")
		}
	}
	if got, want := w.Causes[rendezvous.CauseNodeLost],
		(rendezvous.Starts{Count: 2, IdleMS: 3000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
