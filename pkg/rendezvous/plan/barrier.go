package plan

import (
	"slices"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// forming is the step at the barrier. A full barrier turns the World to running. Any other change
// is a cause for the next generation.
func (p *planner) forming() Step {
	lost := p.lost()
	switch {
	case len(lost) > 0:
		return p.change(rendezvous.CauseNodeLost, LossText(lost), p.settleLedger(), nil)
	case WishPending(p.s, p.v):
		return p.change(p.wishCause(), "", p.settleLedger(), nil)
	}
	missing := Unready(p.s)
	if len(missing) == 0 {
		r := p.s.Ready[p.w.Members[0].Node]
		master := rendezvous.Master{Host: r.Host}
		if len(r.Ports) > 1 {
			master.Port, master.Store = r.Ports[0], r.Ports[1]
		}
		return Run{master}
	}
	if bad, settled := p.unreadable(missing); bad {
		if !settled {
			// A node that holds the checkpoint may come back, so the job does not fall back yet.
			return Nothing{p.now.Add(p.t.Barrier / 10)}
		}
		return p.fallBack()
	}
	if Grows(p.s, p.v) { // nothing has started yet, so growing now costs less than a planned change later
		return p.atTarget(func() Step {
			cause, text := p.growthCause()
			return p.change(cause, text, p.settleLedger(), nil)
		})
	}
	return p.after(p.m.PhaseSince, p.t.Barrier, func() Step {
		late := rendezvous.SetOf(missing)
		for _, d := range p.s.Doing {
			if late[d.Node] && (d.Kind == "fetching" || d.Kind == "checking") &&
				p.now.Sub(p.m.PhaseSince) < 20*p.t.Barrier {
				return Nothing{p.now.Add(p.t.Barrier / 10)}
			}
		}
		return p.withoutUnready(missing)
	})
}

// Unready lists the nodes that the barrier waits for.
func Unready(s *rendezvous.Snapshot) []string {
	var names []string
	for _, m := range s.World.Members {
		if r, ok := s.Ready[m.Node]; !ok || r.Incarnation != m.Incarnation {
			names = append(names, m.Node)
		}
	}
	for _, l := range s.World.Leavers {
		r, ok := s.Ready[l.Node]
		n := s.Node(l.Node)
		registered := n != nil && n.Incarnation == l.Incarnation
		if registered && (!ok || r.Incarnation != l.Incarnation) {
			names = append(names, l.Node)
		}
	}
	return names
}

// leaverGone reports whether a leaver is gone but still registered, so that it can never be ready.
func (p *planner) leaverGone() bool {
	for _, l := range p.w.Leavers {
		if seen := p.v.Find(l); seen != nil && seen.State == verdict.Gone && seen.Registered {
			return true
		}
	}
	return false
}

// withoutUnready proposes a World without the nodes that hold the barrier up.
func (p *planner) withoutUnready(missing []string) Step {
	w := *p.w
	late, times := rendezvous.SetOf(missing), map[string]int{}
	w.Quarantine = slices.DeleteFunc(slices.Clone(w.Quarantine), func(q rendezvous.Quarantine) bool {
		if late[q.Node] {
			times[q.Node] = min(2*q.Times, 16)
		}
		return late[q.Node]
	})
	for _, node := range missing { // not a candidate now, nor for n generations
		n := max(1, times[node])
		w.Quarantine = append(w.Quarantine,
			rendezvous.Quarantine{Node: node, Times: n, Until: w.Generation + 1 + schema.Generation(n)})
	}
	s := *p.s
	s.World = &w
	q := *p
	q.s, q.w = &s, &w
	// Propose deletes the keys of these nodes. As leavers they would have to report Ready, and
	// would hold up the next barrier too.
	q.evict = missing
	return q.change(rendezvous.CauseNodeLost, "the barrier waited too long for "+phrase.List(missing),
		q.settleLedger(), nil)
}
