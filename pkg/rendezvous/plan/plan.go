// Package plan derives the next step of a job from a Snapshot, the verdicts on its nodes, and the time.
// It is pure.
package plan

import (
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/schema"
)

// Facts are the inputs of Next.
type Facts struct {
	Snapshot *rendezvous.Snapshot
	View     verdict.View
	Observed Observed
	Timeouts Timeouts
	Now      time.Time
}

// Next returns the next step of a job. It is pure: the same facts give the same step.
func Next(f Facts) Step {
	s := f.Snapshot
	if s.Job == nil || s.Wish.Rev == 0 {
		return Nothing{}
	}
	s, release := f.Observed.released(s, f.Now)
	p := planner{s: s, w: s.World, v: f.View, m: f.Observed, t: f.Timeouts, now: f.Now}
	w := s.World
	var step Step
	switch {
	case w != nil && (w.Phase == rendezvous.Done || w.Attempt == s.Job.Attempt && w.Phase.Ended()):
		return Nothing{}
	case s.Wish.Stop == s.Job.Attempt:
		step = p.stop()
	case w == nil || w.Attempt != s.Job.Attempt:
		step = p.proposeFirst()
	case w.Phase == rendezvous.Forming:
		step = p.forming()
	case w.Phase == rendezvous.Running:
		step = p.running()
	case w.Phase == rendezvous.Finishing:
		step = p.finishing()
	default:
		step = p.waiting()
	}
	if wait, idle := step.(Nothing); idle {
		if !release.IsZero() && (wait.Until.IsZero() || release.Before(wait.Until)) {
			wait.Until = release
		}
		return p.reportLost(wait)
	}
	return step
}

// planner has the facts of one call of Next.
type planner struct {
	s   *rendezvous.Snapshot
	w   *rendezvous.World // of s
	v   verdict.View
	m   Observed
	t   Timeouts
	now time.Time

	newHead, older *checkpoint.Head // see Propose
	distrust       string           // why older replaces a newest checkpoint that can be read
	broughtFrom    schema.UID       // the earlier job of newHead, which nodes brought; "": none
	evict          []string         // nodes to drop although they are not known to be gone
}

// reportLost reports lost nodes that were no members, when there is no other step. No step waits
// for such a node, but the operator should learn of a lost spare before it is needed.
func (p *planner) reportLost(wait Nothing) Step {
	var t ReportLost
	for _, x := range p.m.missing {
		until := x.since.Add(p.t.Missing)
		if !p.now.Before(until) {
			t.Lost = append(t.Lost, verdict.Member{Ref: x.Ref, Reason: "lease-expired", Why: "lease expired",
				After: p.now.Sub(x.since), By: []string{"etcd"}})
		} else if wait.Until.IsZero() || until.Before(wait.Until) {
			wait.Until = until
		}
	}
	if len(t.Lost) > 0 {
		t.Lost = t.Lost[:min(len(t.Lost), MaxReported)]
		return t
	}
	return wait
}

// after returns Nothing until d has passed since from, and then the result of next.
func (p *planner) after(from time.Time, d time.Duration, next func() Step) Step {
	if until := from.Add(d); p.now.Before(until) {
		return Nothing{until}
	}
	return next()
}

// proposeFirst proposes the first World of an attempt.
func (p *planner) proposeFirst() Step {
	cause := rendezvous.CauseFirst
	if p.w != nil {
		cause = rendezvous.CauseAttempt
	}
	return p.lastCall(func() Step { return p.propose(cause, "", ledger.Settled{}) })
}

// lastCall waits until there are enough nodes. If there are fewer than the target, it then waits
// for the last call.
func (p *planner) lastCall(next func() Step) Step {
	if Present(p.s, p.v) < p.s.Least() {
		return Nothing{}
	}
	return p.atTarget(next)
}

// atTarget returns the result of next: at once if the target is met, else after the last call.
func (p *planner) atTarget(next func() Step) Step {
	if n := Present(p.s, p.v); n >= p.s.Target(n) || p.m.LastCallSince.IsZero() {
		return next()
	}
	return p.after(p.m.LastCallSince, time.Duration(p.s.Job.Rules.LastCall), next)
}
