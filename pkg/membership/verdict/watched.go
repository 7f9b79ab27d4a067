package verdict

import "github.com/elasticd/elastic/pkg/membership"

// Watchers is how many nodes watch each member: those that follow it on the ring.
const Watchers = 2

// askWatched has the judge dial the members that lost a watcher. Machines that end together are
// often neighbours: a lost watcher says nothing of those it watched, and the others may not have
// said it yet. A world that is planned before they answer would have the next lost node in it, and
// so on.
func (f *facts) askWatched(v *View, ring int) {
	for i := range min(ring, len(v.Members)) {
		if v.Members[i].State == Alive {
			continue
		}
		for k := 1; k <= Watchers; k++ {
			m := &v.Members[(i-k%ring+ring)%ring]
			if m.State != Alive || m.Unasked || m.Incarnation == f.ev.Self {
				continue
			}
			fresh := f.fresh(m.Ref)
			if fresh && f.ev.Answers[m.Incarnation].Kind == membership.Same {
				continue
			}
			if m.Unasked = true; !fresh {
				v.Ask = append(v.Ask, m.Ref)
			}
		}
	}
}
