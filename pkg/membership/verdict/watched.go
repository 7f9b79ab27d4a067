package verdict

import "github.com/elasticd/elastic/pkg/membership"

// Watchers is how many nodes watch each member: those that follow it on the ring.
const Watchers = 2

// askWatched adds to v.Ask the members that lost a watcher. Machines that end together are often
// neighbours. A lost watcher reports nothing about the nodes that it watched, and the others may
// not have reported them yet. A World that is planned before those nodes answer would contain the
// next lost node, and so on.
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
