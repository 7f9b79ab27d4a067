package plan

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
)

// waiting: the survivors hold. A Hold that is over causes the next generation as soon as a plan
// exists, even if its reason is gone.
func (p *planner) waiting() Step {
	if p.allZero() {
		return p.done()
	}
	h := p.w.Hold
	if h.Planned && !p.saved() && !p.unplanned() {
		return Nothing{p.m.PhaseSince.Add(h.Limit(p.s.Job) + p.t.Slack)}
	}
	if f := p.s.Failure; f != nil && p.w.Ledger.Closed != p.w.Generation {
		// it was reported just before a member asked all to save
		return p.changeFailed()
	}
	b, cause, text := p.books(), h.Cause, h.Text
	if b.Pardoned { // it was no failure of its own: nothing to back off from
		cause, text = rendezvous.CauseNodeLost, LossText(p.lossesThatExplain())
	}
	if until := p.m.PhaseSince.Add(time.Duration(h.Backoff)); h.Why == rendezvous.BackingOff && !b.Pardoned &&
		p.now.Before(until) {
		return Nothing{until}
	}
	propose := func() Step { return p.propose(cause, text, b) }
	var step Step
	if h.Why == rendezvous.BackingOff && Present(p.s, p.v) >= p.s.Least() ||
		cause == rendezvous.CauseDrain && p.survivors() >= p.s.Least() {
		step = propose()
	} else {
		step = p.lastCall(propose)
	}
	if _, idle := step.(Nothing); !idle {
		return step
	}
	lost := p.unreported()
	if b.Pardoned {
		lost = p.lossesThatExplain()
	}
	if len(lost) == 0 {
		return step
	}
	return p.enter(rendezvous.CauseNodeLost, LossText(lost), b)
}

// survivors is how many members of this World can be members of the next. Where they are enough
// they do not wait for other nodes: a planned departure is to take no longer than a loss.
func (p *planner) survivors() (n int) {
	for _, c := range candidates(p.s, p.v) {
		if p.w.Rank(c.Ref) >= 0 {
			n++
		}
	}
	return n
}

// AllSaved reports whether a planned Hold is over: every member wrote that it saved and stopped, or
// ended, left or is gone; or the grace has passed and rank 0 moves no bytes.
func AllSaved(s *rendezvous.Snapshot, v verdict.View, waited time.Duration, slack time.Duration) bool {
	all := true
	for _, m := range s.World.Members {
		x, ok := s.Exits[m.Node]
		if ok && x.Incarnation == m.Incarnation && x.Ended() {
			continue
		}
		if seen := v.Find(m); seen != nil && seen.State == verdict.Gone {
			continue
		}
		all = false
	}
	if all {
		return true
	}
	if waited < s.World.Hold.Limit(s.Job)+slack {
		return false
	}
	return !slices.ContainsFunc(s.Doing, func(d rendezvous.Activity) bool {
		return len(s.World.Members) > 0 && d.Node == s.World.Members[0].Node && d.Kind == "saving"
	})
}

// saved is saved for this world.
func (p *planner) saved() bool { return AllSaved(p.s, p.v, p.now.Sub(p.m.PhaseSince), p.t.Slack) }

// unplanned reports whether a member was lost while it had not yet written that it saved. A member
// that left, or is gone after it wrote its record, is no cause: the save of the others goes on.
func (p *planner) unplanned() bool {
	for _, m := range p.w.Members {
		seen := p.v.Find(m)
		if seen == nil || seen.State != verdict.Gone || seen.Reason == "left" {
			continue
		}
		if x, ok := p.s.Exits[m.Node]; !ok || x.Incarnation != m.Incarnation || !x.Ended() {
			return true
		}
	}
	return false
}

// planned asks the workers to save first.
func (p *planner) planned(c rendezvous.Cause, text string) Step {
	reason := map[rendezvous.Cause]string{rendezvous.CauseScale: "scale", rendezvous.CauseDrain: "drain",
		rendezvous.CauseNodeJoined: "join"}[c]
	h := rendezvous.Hold{Why: rendezvous.Saving, Text: text, Planned: true, Reason: reason,
		Present: Present(p.s, p.v), Cause: c}
	return Hold{Hold: h, Ledger: p.books().Ledger}
}

// enter is an unplanned Hold: below the least size, or no batch plan for the nodes at hand.
func (p *planner) enter(c rendezvous.Cause, text string, b ledger.Settled) Hold {
	h := rendezvous.Hold{Why: rendezvous.NodesMissing, Text: text, Present: Present(p.s, p.v), Cause: c}
	if n := Size(p.s, p.v); n >= max(1, p.s.Least()) {
		if _, err := Batch(p.s, n); err != nil {
			h.Why, h.Text = rendezvous.PlanImpossible, err.Error()
		}
	}
	lost := p.unreported()
	return Hold{Hold: h, Lost: lost, Ledger: ledger.CountLost(b.Ledger, p.w, lost, p.now),
		Quarantine: p.w.Quarantine}
}
