package plan

import (
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/trust"
)

// books settles the ledger of the present generation, once: a Hold that settled it carries the
// result. A Hold that a leaving member wrote, or one that asks to stop, did not settle it.
func (p *planner) books() ledger.Settled {
	if p.w.Ledger.Closed == p.w.Generation {
		b := ledger.Settled{Ledger: p.w.Ledger}
		b.Pardoned = len(p.lossesThatExplain()) > 0 && ledger.Pardon(&b.Ledger, p.w)
		return b
	}
	f := p.s.Failure
	if p.w.Phase == rendezvous.Forming {
		f = nil
	}
	e := ledger.Closing{Failure: f, Lost: len(p.lossesThatExplain()) > 0, Ran: p.m.ran(p.now),
		Head: p.s.Head.Number, Now: p.now,
		Progressed: p.s.Progress != nil && p.s.Progress.Step != nil}
	if f != nil {
		if n := p.s.Node(f.Node); n != nil {
			e.Program, e.Stranger = n.Program, p.s.OtherProgram(n)
		}
	}
	b := ledger.Settle(p.w, p.s.Job.Rules, e)
	if f != nil && !b.Collateral && !b.Newcomer && !f.Victim && !f.AsksForRestart() {
		trust.Settle(p.s, f, &b)
	}
	return b
}

// change is an unplanned cause: the next World at once where a plan is at hand, else a Hold.
func (p *planner) change(c rendezvous.Cause, text string) Step {
	return p.changeWith(c, text, p.books(), nil)
}

// changeFailed is change because a worker failed.
func (p *planner) changeFailed() Step {
	b, c, text := p.books(), rendezvous.CauseWorkerFailed, p.s.Failure.String()
	failure := &ReportedFailure{Failure: *p.s.Failure, Collateral: b.Collateral, Spent: b.Spent}
	if p.s.Failure.AsksForRestart() {
		c = rendezvous.CauseAsked
	}
	if b.Collateral {
		c, text = rendezvous.CauseNodeLost, LossText(p.lossesThatExplain())
	}
	if b.Newcomer {
		text = quarantineText(b.Ledger, p.s.Failure.Node)
		p = p.withLedger(b.Ledger)
	}
	return p.changeWith(c, text, b, failure)
}

// changeWith is change after the books were closed; failure is the one that its step reports, or
// nil.
func (p *planner) changeWith(
	c rendezvous.Cause, text string, b ledger.Settled, failure *ReportedFailure,
) Step {
	switch {
	case b.Fail != nil:
		lost := p.unreported()
		return End{Phase: rendezvous.Failed, Outcome: *b.Fail,
			Ledger: ledger.CountLost(b.Ledger, p.w, lost, p.now), Lost: lost, Failure: failure}
	case b.Backoff > 0:
		lost := p.unreported()
		next := fmt.Sprintf("%s without progress; the next one in %s",
			phrase.Count(b.Ledger.Churn, "generation"), b.Backoff)
		if b.Spent {
			next = fmt.Sprintf("restart %d of %d in %s", b.Ledger.Used, p.s.Job.Rules.MaxRestarts, b.Backoff)
		}
		return Hold{Hold: rendezvous.Hold{Why: rendezvous.BackingOff, Backoff: rendezvous.Seconds(b.Backoff),
			Present: Present(p.s, p.v), Cause: c,
			Text: text + "; " + next},
			Ledger: ledger.CountLost(b.Ledger, p.w, lost, p.now), Lost: lost, Failure: failure}
	}
	step := p.propose(c, text, b)
	switch step := step.(type) {
	case Propose:
		step.Failure = failure
		return step
	case Nothing:
		if p.blocked() != "" {
			return step
		}
		e := p.enter(c, text, b)
		e.Failure = failure
		return e
	}
	return step
}

// withLedger is p as it would be with another ledger: nodes that it puts into quarantine are no
// candidates.
func (p *planner) withLedger(l rendezvous.Ledger) *planner {
	w, s, q := *p.w, *p.s, *p
	w.Ledger = l
	s.World = &w
	q.s, q.w = &s, &w
	return &q
}

// blocked names an old member that is neither gone nor present nor cut by the wish: it may be about
// to register again, and a World without it would stop a healthy node. A suspect blocks too, for as
// long as a verdict takes: others may have it already, and would undo a World with it. So does a
// neighbour of a lost node that has not answered yet, for twice as long.
func (p *planner) blocked() string {
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt || !p.doubts() && !p.unasked() {
		return ""
	}
	here := map[string]membership.Incarnation{}
	for _, n := range candidates(p.s, p.v) {
		here[n.Node] = n.Incarnation
	}
	out, late := rendezvous.SetOf(p.s.Wish.Drain), lateNodes(p.w)
	target := p.s.Target(len(here))
	places := target // left for this rank and those behind: the wish cuts a member without a place
	for rank, m := range p.w.Members {
		seen := p.v.Find(m)
		if seen == nil || places == 0 {
			break
		}
		goesOn := here[m.Node] == m.Incarnation
		doubted := goesOn && seen.State == verdict.Suspect && p.now.Before(p.m.SuspectSince.Add(p.t.Verdict))
		away := seen.State == verdict.Absent && !seen.PastWindow && !seen.WorkerFailed &&
			!out[m.Node] && !late[m.Node]
		silent := goesOn && seen.Unasked && p.now.Before(p.m.FirstSign.Add(2*p.t.Verdict))
		switch {
		case doubted || away || silent:
			return m.Node
		case goesOn, here[m.Node] != "" && rank < target:
			places-- // it goes on, or its next life has its rank
		}
	}
	return ""
}

// unasked reports whether a neighbour of a lost node has not answered yet.
func (p *planner) unasked() bool {
	return slices.ContainsFunc(p.v.Members, func(m verdict.Member) bool { return m.Unasked })
}

// doubts reports whether a node is neither alive for certain nor gone.
func (p *planner) doubts() bool {
	return slices.ContainsFunc(p.v.Members, func(m verdict.Member) bool {
		return m.State == verdict.Suspect || m.State == verdict.Absent
	})
}
