package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/keys"
)

// told is a teller to whom the lines of a story were told.
func told(t *testing.T, lines ...string) *teller {
	t.Helper()
	w := newTeller()
	for _, l := range lines {
		if err := w.line(l); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	w.transcript()
	return w
}

// A request may be answered after the life that asked is over: the next one hears nothing of it.
func TestAnswersOfAnEarlierLifeAreNotHeard(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start",
		"proposed 2: b c", "workers gone", "ok close", "after 1s", "enters")
	if !w.m.is("a2") {
		t.Fatalf("it is %v, not in its second life", w.m.me)
	}
	w.m.Decide(Left{As: "a1"}, w.now)
	if !w.m.is("a2") {
		t.Error("that the first life left ends the second")
	}
	lease, rev := w.m.me.Lease, w.m.me.Rev
	done := w.m.Decide(Registered{As: "a1", Lease: 99, Rev: 98, TTL: time.Second}, w.now)
	if w.m.me.Lease != lease || w.m.me.Rev != rev {
		t.Error("the registration of the first life is taken for that of the second")
	}
	if !slices.Contains(done, Action(Forget{keys.Lease(99)})) {
		t.Errorf("nobody gives the lease of the first life back: %v", done)
	}
	if slices.ContainsFunc(done, func(a Action) bool { _, ok := a.(Renew); return ok }) {
		t.Error("the lease of the first life is renewed")
	}
}
