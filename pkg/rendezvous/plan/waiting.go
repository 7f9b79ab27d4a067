package plan

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
)

// waiting is the step of a waiting World. A Hold that is over causes the next generation as soon as
// one can be planned, even if its reason no longer exists.
func (p *planner) waiting() Step {
	if p.allZero() {
		return p.done()
	}
	h := p.w.Hold
	if h.Planned && !p.saved() && !p.unplanned() {
		return Nothing{p.m.PhaseSince.Add(h.Limit(p.s.Job) + p.t.Slack)}
	}
	if f := p.s.Failure; f != nil && p.w.Ledger.Closed != p.w.Generation {
		// the failure was reported just before a member asked all to save
		return p.changeFailed()
	}
	b, cause, text := p.settleLedger(), h.Cause, h.Text
	if b.Pardoned { // a loss explains the failure, so there is no back-off
		cause, text = rendezvous.CauseNodeLost, LossText(p.lossesThatExplain())
	}
	if until := p.m.PhaseSince.Add(time.Duration(h.Backoff)); h.Why == rendezvous.BackingOff && !b.Pardoned &&
		p.now.Before(until) {
		return Nothing{until}
	}
	propose := func() Step { return p.propose(cause, text, b) }
	var step Step
	if h.Why == rendezvous.BackingOff && Present(p.s, p.v) >= p.s.Least() ||
		(cause == rendezvous.CauseDrain || cause == rendezvous.CauseRestart) &&
			p.survivors() >= p.s.Least() {
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
	return p.holdUnplanned(rendezvous.CauseNodeLost, LossText(lost), b)
}

// survivors is the number of members of this World that can be members of the next. If they are
// enough, the next World does not wait for other nodes: a planned departure takes no longer than a
// loss.
func (p *planner) survivors() (n int) {
	for _, c := range candidates(p.s, p.v) {
		if p.w.Rank(c.Ref) >= 0 {
			n++
		}
	}
	return n
}

// AllSaved reports whether a planned Hold is over. It is over once every member is gone, or wrote
// that its workers saved and stopped, or ended. It is also over after the grace, unless rank 0 is
// still saving.
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

// saved is AllSaved for this World.
func (p *planner) saved() bool { return AllSaved(p.s, p.v, p.now.Sub(p.m.PhaseSince), p.t.Slack) }

// unplanned reports whether a member was lost before it wrote that it saved. A member that left, or
// was lost after it wrote that, does not stop the save of the others.
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

// holdPlanned is a Hold in which the workers save first.
func (p *planner) holdPlanned(c rendezvous.Cause, text string) Step {
	reason := map[rendezvous.Cause]string{rendezvous.CauseScale: "scale", rendezvous.CauseDrain: "drain",
		rendezvous.CauseRestart: "restart", rendezvous.CauseNodeJoined: "join"}[c]
	h := rendezvous.Hold{Why: rendezvous.Saving, Text: text, Planned: true, Reason: reason,
		Present: Present(p.s, p.v), Cause: c}
	return Hold{Hold: h, Ledger: p.settleLedger().Ledger}
}

// holdUnplanned is an unplanned Hold: there are too few nodes, or no batch plan fits them.
func (p *planner) holdUnplanned(c rendezvous.Cause, text string, b ledger.Settled) Hold {
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
