package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// running is the step while workers train.
func (p *planner) running() Step {
	for _, m := range p.w.Members {
		if x, ok := p.s.Exits[m.Node]; ok && x.Incarnation == m.Incarnation && !x.Planned && anyZero(x) {
			return Finish{m.Node}
		}
	}
	if f := p.s.Failure; f != nil {
		return p.failure(f)
	}
	if lost := p.lost(); len(lost) > 0 {
		return p.change(rendezvous.CauseNodeLost, LossText(lost), p.settleLedger(), nil)
	}
	switch {
	case WishPending(p.s, p.v):
		return p.holdPlanned(p.wishCause(), WishText(p.s))
	case Drained(p.s):
		return p.holdPlanned(rendezvous.CauseDrain, "asked to go: "+phrase.List(p.s.Wish.Drain))
	}
	for _, n := range p.s.Nodes {
		if n.LastGeneration > p.s.Fence {
			return p.holdPlanned(rendezvous.CauseNodeJoined, fmt.Sprintf("%s has seen generation %d", n.Node,
				n.LastGeneration))
		}
	}
	if Grows(p.s, p.v) { // the workers train on during the last call
		return p.atTarget(func() Step { return p.holdPlanned(p.growthCause()) })
	}
	return Nothing{}
}

// growthCause says why the next World has more nodes: the operator asked for them, or they joined.
func (p *planner) growthCause() (rendezvous.Cause, string) {
	if p.s.Wish.Request != p.w.Request {
		return p.wishCause(), WishText(p.s)
	}
	return rendezvous.CauseNodeJoined, "more nodes are here"
}

// failure is the step after a worker ended with an error. While a node is in doubt, the loss of
// that node may be the cause, so the plan waits a short time for the verdict.
func (p *planner) failure(f *rendezvous.Failure) Step {
	if len(p.lost()) == 0 {
		if until := p.m.FailedAt.Add(p.causeWait(f)); p.now.Before(until) {
			return Nothing{until}
		}
	}
	return p.changeFailed()
}

// causeWait returns how long another cause of f may still appear: a lost node or, if f is a victim,
// another failed worker. Once all workers of the world have failed, no other cause can.
func (p *planner) causeWait(f *rendezvous.Failure) (wait time.Duration) {
	switch {
	case p.w.Count < 2:
	case p.doubts():
		wait = p.t.Verdict
	default:
		wait = p.t.Nearby
	}
	if f.Victim && len(f.Others)+1 < p.w.Size() {
		wait = max(wait, p.t.Cause)
	}
	return wait
}

// finishing is the step after some workers ended with 0. No other generation starts until the
// others have ended or are gone, or a server has failed. Only a stop, or a member that leaves, holds
// the World.
func (p *planner) finishing() Step {
	if p.allZero() {
		return p.done()
	}
	through := true
	for rank, m := range p.w.Members {
		x, ok := p.s.Exits[m.Node]
		seen := p.v.Find(m)
		switch {
		case p.w.Workers(rank) == 0:
		case ok && x.Incarnation == m.Incarnation && x.Ended():
			// The failure is a separate record, which may arrive after this exit. Without it no
			// restart would be spent.
			through = through && (p.s.Failure != nil || !anyFailed(x) || !registered(seen))
		case seen == nil || seen.State == verdict.Gone || seen.State == verdict.Absent && seen.WorkersEnded:
		default:
			through = false
		}
	}
	serverLost := p.s.Failure != nil && p.s.Failure.Process.Name != "" // trainers wait for ever for a server
	switch {
	case !through && !serverLost:
		return Nothing{}
	case p.s.Failure != nil:
		return p.changeFailed()
	}
	return p.change(rendezvous.CauseNodeLost, LossText(p.lost()), p.settleLedger(), nil)
}

func anyZero(x rendezvous.Exit) bool {
	return slices.ContainsFunc(x.Codes, func(c *int) bool { return c != nil && *c == 0 })
}

func anyFailed(x rendezvous.Exit) bool {
	return slices.ContainsFunc(x.Codes, func(c *int) bool { return c != nil && *c != 0 })
}

// registered reports whether a member is registered, and not found gone.
func registered(m *verdict.Member) bool {
	return m != nil && (m.State == verdict.Alive || m.State == verdict.Suspect)
}

// Grows reports whether the next World would have more nodes than this one.
func Grows(s *rendezvous.Snapshot, v verdict.View) bool {
	n := Present(s, v)
	if n <= s.World.Count || s.Target(n) <= s.World.Count {
		return false
	}
	_, err := Batch(s, Size(s, v))
	return err == nil
}

// WishPending reports whether the newest wish requires other members than this World has. A job
// that may run with fewer nodes than the wish goes on, and grows after the last call once the nodes
// are registered.
func WishPending(s *rendezvous.Snapshot, v verdict.View) bool {
	if s.Wish.Request == s.World.Request {
		return false
	}
	if restarts(s) {
		return true
	}
	return s.Least() > s.World.Count || s.Target(Present(s, v)) < s.World.Count
}

// wishCause is the cause of a World that a wish requires.
func (p *planner) wishCause() rendezvous.Cause {
	switch {
	case restarts(p.s): // also if it was scaled since: only with this cause all workers save
		return rendezvous.CauseRestart
	case p.s.Wish.By == "drain":
		return rendezvous.CauseDrain
	}
	return rendezvous.CauseScale
}

// restarts reports whether the wish has the workers of this World start again.
func restarts(s *rendezvous.Snapshot) bool {
	return s.World != nil && s.Wish.Restart > 0 && s.Wish.Restart >= s.World.Generation
}

// WishText says what the wish changes.
func WishText(s *rendezvous.Snapshot) string {
	if restarts(s) {
		return "asked to restart"
	}
	return fmt.Sprintf("scaling from %d to %s", s.World.Count, phrase.Count(s.Wish.NP, "node"))
}

// Drained reports whether the wish drains a member.
func Drained(s *rendezvous.Snapshot) bool {
	drained := rendezvous.SetOf(s.Wish.Drain)
	return len(drained) > 0 && slices.ContainsFunc(s.World.Members,
		func(m membership.Ref) bool { return drained[m.Node] })
}
