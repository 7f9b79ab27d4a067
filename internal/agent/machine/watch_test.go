package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Suspicions of a row of neighbours that refuse dials are written in few requests, one after the
// other. Each request has all suspicions known by then, up to the limit of a transaction. One that
// was not written is written again. They are withdrawn in the same way.
func TestSuspicionsOfOneMomentAreOneRequest(t *testing.T) {
	const n = 300
	now := time.Now()
	d, out := newDetection(verdict.DefaultTimeouts(0)), message.NewOutbox()
	world := &rendezvous.World{Count: n}
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		world.Members = append(world.Members,
			membership.Ref{Node: name, Incarnation: membership.Incarnation(name)})
	}
	snap := &rendezvous.Snapshot{Whole: true, World: world}
	f := &Sight{Now: now, Self: membership.Node{Ref: world.Members[n-1]}, Joined: true, Registered: true,
		Snapshot: snap, World: world}
	var asked *message.Suspect // the newest
	var back *message.Withdraw
	step := func(what string, suspects, withdraws int) {
		t.Helper()
		asked, back = nil, nil
		now = now.Add(message.Rest)
		out.Begin(now)
		d.Watch(f, out)
		got := []int{0, 0}
		for _, a := range out.Actions() {
			switch a := a.(type) {
			case message.Suspect:
				asked, got[0] = &a, len(a.Suspicions)
			case message.Withdraw:
				back, got[1] = &a, len(a.Suspicions)
			}
		}
		if diff := cmp.Diff([]int{suspects, withdraws}, got); diff != "" {
			t.Fatalf("%s: suspicions written and taken back (-want +got)\n%s", what, diff)
		}
	}
	answer := func(err error) {
		e := message.Suspected{Err: err}
		for _, x := range asked.Suspicions {
			e.About = append(e.About, x.Incarnation)
			if err == nil {
				snap.Suspects = append(snap.Suspects, x)
			}
		}
		d.Apply(e, now, out)
	}
	hear := func(from, to int, sign membership.Sign) {
		for _, r := range world.Members[from:to] {
			d.Apply(message.Signaled{Signal: membership.Signal{Ref: r, Sign: sign}}, now, out)
		}
	}
	// A row is watched only as far as it was found, so it is found from behind.
	hear(n-3, n-1, membership.ConnectionClosed)
	step("two refuse", 2, 0)
	hear(n-151, n-3, membership.ConnectionClosed)
	written := asked
	step("more refuse while those are written", 0, 0)
	asked = written
	answer(nil)
	step("they are written", membership.MaxSuspicions, 0)
	answer(store.ErrMoved)
	step("the registration moved", membership.MaxSuspicions, 0)
	answer(nil)
	step("the rest", 150-2-membership.MaxSuspicions, 0)
	answer(nil)
	step("all are written", 0, 0)
	hear(n-151, n-1, "")
	step("all answer again", 0, membership.MaxSuspicions)
	snap.Suspects = snap.Suspects[len(back.Suspicions):]
	out.Answered(message.KindWithdraw, nil)
	step("the others", 0, 150-membership.MaxSuspicions)
}
