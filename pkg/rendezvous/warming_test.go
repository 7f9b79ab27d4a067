package rendezvous_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// A node whose workers start is in no World that can do without it. A member stays a member, even
// if its workers start.
func TestANodeWhoseWorkersStart(t *testing.T) {
	starts := func(node string) fact {
		return func(x *situation) { x.Node(node).Warming = true }
	}
	joins := func() *jobSnapshot {
		return aRange(2, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b")
	}
	if step, holds := given(joins()).plan().(plan.Hold); !holds {
		t.Errorf("its workers wait: %#v, want a hold", step)
	}
	if step, idle := given(joins(), starts("c")).plan().(plan.Nothing); !idle {
		t.Errorf("its workers start: %#v, want nothing", step)
	}
	needed := aRange(2, 3).here("a", "c").world(rendezvous.Waiting, "a")
	needed.World.Hold = &rendezvous.Hold{Why: rendezvous.NodesMissing, Cause: rendezvous.CauseNodeLost}
	if step, proposes := given(needed, starts("c")).plan().(plan.Propose); !proposes ||
		step.World.Count != 2 {
		t.Errorf("it is needed: %#v, want a world of two", step)
	}
	member := aRange(2, 3).here("a", "b", "c").world(rendezvous.Running, "a", "b", "c")
	if step, idle := given(member, starts("c")).plan().(plan.Nothing); !idle {
		t.Errorf("it is a member: %#v, want nothing", step)
	}
}
