package machine

import (
	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"slices"
	"testing"
)

// The disk may know of a commit that the agent did not see before the store was set back. The agent
// then claims the job like one that saw it, and a later read of the older state does not change
// that.
func TestStoreBehindTheDisk(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
		"ok start")
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
