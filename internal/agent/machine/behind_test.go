package machine

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/store"
)

// The disk may have a commit that the agent did not see before the store was set back. The agent
// then claims the job like one that saw it, and a later read of the older state does not change
// that.
func TestStoreBehindTheDisk(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step",
		"b ready", "ok ready", "ok step", "ok read", "ok start")
	done := w.m.Decide(event.StoreBehind{}, w.now)
	claims := func(done []action.Action) bool {
		return slices.ContainsFunc(done,
			func(a action.Action) bool { r, ok := a.(action.Reclaim); return ok && r.Claim.Behind })
	}
	if w.m.State() != StateCut || !claims(done) {
		t.Errorf("it is %v, and does %v", w.m.State(), done)
	}
	if slices.ContainsFunc(done, func(a action.Action) bool { _, ok := a.(action.HaltWorkers); return ok }) {
		t.Error("its workers are ended")
	}
	w.rev++
	w.see(w.copy(), false)
	if w.m.State() != StateCut {
		t.Errorf("it believes the store again, and is %v", w.m.State())
	}
}

// No proposal succeeds while there are claims, and each one would use up the number of a
// generation. An agent proposes once the claims are gone, even if it has an older snapshot, or
// found the store behind.
func TestNoProposalWhileTheJobIsClaimed(t *testing.T) {
	w := replayed(t, "job 2", "enters")
	proposals := func(done []action.Action) (n int) {
		for _, a := range done {
			if x, ok := a.(action.Take); ok {
				if _, ok := x.Step.(plan.Propose); ok {
					n++
				}
			}
		}
		return n
	}
	see := func(claims ...rendezvous.Claim) int {
		w.rev++
		s := w.copy()
		s.Claims = claims
		return proposals(w.m.Decide(event.StoreRead{Update: follow.Update{Snapshot: s}}, w.now))
	}
	refused := func() int {
		n := proposals(w.m.Decide(event.Stepped{Err: store.ErrMoved}, w.now))
		w.now = w.now.Add(Tick)
		return n + proposals(w.m.Decide(event.Ticked{}, w.now))
	}
	if err := w.shows([]string{"b", "joins"}); err != nil {
		t.Fatal(err)
	}
	joined := rendezvous.Claim{Node: "c", Job: w.job}
	behind := joined
	behind.Behind = true
	if n := see(); n != 1 {
		t.Fatalf("%d proposals before the claims", n)
	}
	if n := see(behind) + refused() + see(behind, joined); n > 0 {
		t.Errorf("%d proposals while a node claims that the store is behind", n)
	}
	if n := see(joined); n > 0 {
		t.Errorf("%d proposals while the claim of a node is there that joined others", n)
	}
	if n := see(); n != 1 {
		t.Errorf("%d proposals after the claims", n)
	}
}
