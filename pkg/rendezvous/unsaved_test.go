package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// A stop says what training is lost because the workers did not save.
func TestUnsaved(t *testing.T) {
	stopping := func(facts ...fact) *situation {
		x := given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"),
			savingFor(rendezvous.CauseScale), savedBy("a", "b"), asksToStop)
		x.World.Rev, x.World.Time, x.World.Master = 20, noon, &rendezvous.Master{}
		for _, f := range facts {
			f(x)
		}
		return x
	}
	saved := func(rev int64, ago time.Duration) fact {
		return func(x *situation) {
			commit(2, "a", "b")(x)
			x.Head.Rev, x.Head.Time = rev, noon.Add(-ago)
		}
	}
	for name, c := range map[string]struct {
		x    *situation
		want string
	}{
		"it saved when it was asked": {stopping(saved(21, 0)), ""},
		"it did not":                 {stopping(saved(19, 7*time.Second)), "; did not save: 7s since checkpoint 2 are lost"},
		"it had just saved":          {stopping(saved(19, 300*time.Millisecond)), ""},
		"the checkpoint is of long ago": {stopping(saved(19, time.Hour), ran(9*time.Second)),
			"; did not save: 9s since checkpoint 2 are lost"},
		"it never saved":        {stopping(), "; did not save: there is no checkpoint"},
		"its workers never ran": {stopping(func(x *situation) { x.World.Master = nil }), ""},
		"they keep their state": {stopping(func(x *situation) {
			e := x.Exits["b"]
			e.Waits = true
			x.Exits["b"] = e
		}), ""},
		"it was not asked to save": {stopping(func(x *situation) { x.World.Hold.Planned = false }), ""},
	} {
		end, ok := c.x.plan().(plan.End)
		if got, want := end.Outcome.Message, "the operator asked for it"+c.want; !ok || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Where a save is required, a stop without one is refused, and the job goes on. The next World says what
// was lost.
func TestStopThatRequiresASave(t *testing.T) {
	asked := func(facts ...fact) *situation {
		x := given(aJob(2).here("a", "b").world(rendezvous.Waiting, "a", "b"),
			savingFor(rendezvous.CauseScale), savedBy("a", "b"), asksToStop)
		x.World.Rev, x.World.Time, x.World.Master = 20, noon, &rendezvous.Master{}
		x.Wish.RequireSave = true
		for _, f := range facts {
			f(x)
		}
		return x
	}
	if end, ok := asked(func(x *situation) {
		commit(2, "a", "b")(x)
		x.Head.Rev = 21
	}).plan().(plan.End); !ok || end.Unsaved != "" {
		t.Errorf("it saved: %v", end)
	}
	lost := "did not save: there is no checkpoint"
	hold, ok := asked().plan().(plan.Hold)
	if !ok || hold.Hold.Unsaved != lost || hold.Hold.Planned {
		t.Fatalf("it did not save: %+v", hold)
	}
	next, ok := asked(func(x *situation) {
		x.World.Hold, x.Wish.Stop = &hold.Hold, 0
	}).plan().(plan.Propose)
	if w := next.World; !ok || w.Unsaved != lost || w.Cause != rendezvous.CauseAsked {
		t.Errorf("after the refusal: %+v", w)
	}
	join := asked(func(x *situation) { x.Wish.Stop = 0 }).plan().(plan.Propose)
	if join.World.Unsaved != lost {
		t.Errorf("a change of the world that is no stop says nothing of it: %+v", join.World)
	}
}
