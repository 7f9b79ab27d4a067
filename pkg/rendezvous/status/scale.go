package status

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// ScaleEffect says what a wish costs training, and how to undo it.
func ScaleEffect(s *rendezvous.Snapshot, wish rendezvous.Wish) string {
	present := presentWith(s, wish)
	missing := phrase.Count(wish.NP-present, "more node")
	if wish.NP > present+1 {
		missing += " are"
	} else {
		missing += " is"
	}
	switch {
	case wish.NP <= present && !Trains(s):
		return fmt.Sprintf("asked for %d; the next generation has %d", wish.NP, wish.NP)
	case wish.NP == present && s.World.Count == wish.NP:
		return fmt.Sprintf("asked for %d, %d here; training goes on with %d", wish.NP, present, wish.NP)
	case wish.NP <= present:
		return fmt.Sprintf("asked for %d, %d here; the workers save, and go on with %d", wish.NP, present, wish.NP)
	case wish.Until > 0:
		return fmt.Sprintf("asked for %d, %d here; training goes on with %d until %s here",
			wish.NP, present, wish.Until, missing)
	case s.Job.Limits.Exact && Trains(s):
		return fmt.Sprintf("asked for %d, %d here; training waits until %s here; --when-ready trains "+
			"on until then; undo: elastic scale %s --np=%d",
			wish.NP, present, missing, s.Job.Name, s.World.Count)
	case Trains(s) && s.World.Count < present:
		return fmt.Sprintf(
			"asked for %d, %d here; training goes on with %d for a last call of %s, and then with %d",
			wish.NP, present, s.World.Count, time.Duration(s.Job.Rules.LastCall), present)
	case Trains(s) && s.World.Count <= wish.NP:
		return fmt.Sprintf("asked for %d, %d here; training goes on with %d", wish.NP, present, s.World.Count)
	}
	return fmt.Sprintf("asked for %d, %d here", wish.NP, present)
}

// Lacking is the number of nodes that are missing for a wish.
func Lacking(s *rendezvous.Snapshot, wish rendezvous.Wish) int {
	return max(0, wish.NP-presentWith(s, wish))
}

// presentWith is the number of nodes that could be in a World with a wish.
func presentWith(s *rendezvous.Snapshot, wish rendezvous.Wish) int {
	after := *s
	after.Wish = wish
	present, _, _ := plan.Shortage(&after, plan.StoreView(s, time.Time{}))
	return present
}

// Trains reports whether a World of this attempt runs, or is about to.
func Trains(s *rendezvous.Snapshot) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt &&
		(s.World.Phase == rendezvous.Forming || s.World.Phase == rendezvous.Running)
}
