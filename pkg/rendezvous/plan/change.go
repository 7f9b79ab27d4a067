package plan

import (
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
)

// settleLedger settles the ledger of the present generation, once. If a Hold settled it, its ledger
// is the result. A Hold that a leaving member wrote, or one that asks to stop, did not settle it.
func (p *planner) settleLedger() ledger.Settled {
	if p.w.Ledger.Closed == p.w.Generation {
		b := ledger.Settled{Ledger: p.w.Ledger}
		b.Pardoned = len(p.lossesThatExplain()) > 0 && ledger.Pardon(&b.Ledger, p.w)
		return b
	}
	f := p.s.Failure
	if p.w.Phase == rendezvous.Forming {
		f = nil
	}
	e := ledger.Closing{Failure: f, Lost: len(p.lossesThatExplain()) > 0, Ran: p.m.ran(p.now), Now: p.now,
		Reported: p.reported() != nil, Step: p.reached(),
		Committed: p.s.Head.Number > 0 && p.s.Head.Generation == p.w.Generation}
	if f != nil {
		e.Dispensable = p.dispensable(f.Node)
		e.Reported = e.Reported || f.Step != nil
	}
	b := ledger.Settle(p.w, p.s.Job.Rules, e)
	if f != nil && !b.Collateral && !b.LeftOut && !f.Victim && !f.NotKnown && !f.Script && !f.AsksForRestart() {
		ledger.SettleTrust(ledger.Ending{Snapshot: p.s, Failure: f, Dispensable: e.Dispensable}, &b)
	}
	return b
}

// reported is the last step that workers of this generation reported; nil: none.
func (p *planner) reported() *int64 {
	if x := p.s.Progress; x != nil && x.Step != nil && (x.Generation == 0 || x.Generation == p.w.Generation) {
		return x.Step
	}
	return nil
}

// reached is the last step of this generation that is known: it was reported, or saved, or it is
// that of the checkpoint that the generation began from.
func (p *planner) reached() (last *int64) {
	known := []*int64{p.reported()}
	if p.s.Failure != nil {
		known = append(known, p.s.Failure.Step)
	}
	if p.s.Head.Generation == p.w.Generation {
		known = append(known, p.s.Head.Step)
	}
	if p.w.Resume != nil {
		known = append(known, p.w.Resume.Step)
	}
	for _, step := range known {
		if step != nil && (last == nil || *step > *last) {
			last = step
		}
	}
	return last
}

// dispensable reports whether np allows a world without a node, and one can be planned now.
func (p *planner) dispensable(node string) bool {
	fits, out := fit(p.s, p.v), keptOut(p.s, needed)
	n := count(p.s.Nodes, func(n *membership.Node) bool { return n.Node != node && fits(n) && !out(n) })
	if n < max(1, p.s.Least()) {
		return false
	}
	_, err := Batch(p.s, min(n, p.s.Target(n)))
	return err == nil
}

// changeFailed settles the ledger after a worker failed, and answers that.
func (p *planner) changeFailed() Step {
	b, c, text := p.settleLedger(), rendezvous.CauseWorkerFailed, p.s.Failure.String()
	failure := &ReportedFailure{Failure: *p.s.Failure, Collateral: b.Collateral, Spent: b.Spent}
	if p.s.Failure.AsksForRestart() {
		c = rendezvous.CauseAsked
	}
	if b.Collateral {
		c, text = rendezvous.CauseNodeLost, LossText(p.lossesThatExplain())
	}
	if b.LeftOut {
		text = quarantineText(b.Ledger, p.s.Failure.Node)
		p = p.withLedger(b.Ledger)
	}
	return p.change(c, text, b, failure)
}

// change answers an unplanned cause, after the ledger is settled: with the next World if one can be
// planned now, else with a Hold. failure is the failure that its step reports, or nil.
func (p *planner) change(c rendezvous.Cause, text string, b ledger.Settled, failure *ReportedFailure) Step {
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
		e := p.holdUnplanned(c, text, b)
		e.Failure = failure
		return e
	}
	return step
}

// withLedger returns p with another ledger. Nodes that this ledger puts into quarantine are no
// candidates.
func (p *planner) withLedger(l rendezvous.Ledger) *planner {
	w, s, q := *p.w, *p.s, *p
	w.Ledger = l
	s.World = &w
	q.s, q.w = &s, &w
	return &q
}

// blocked returns the name of an old member for which the next World waits; "": none. The member is
// neither gone nor known to be present, and the wish does not cut it.
//
// An absent member may be about to register again, and a World without it would stop a healthy
// node. A suspect blocks for as long as a verdict takes, because other nodes may have the verdict
// already and would undo a World with the suspect. A neighbour of a lost node that has not answered
// yet blocks for twice as long.
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
	ranksLeft := target // ranks left from this one on; the wish cuts a member that gets none
	for rank, m := range p.w.Members {
		seen := p.v.Find(m)
		if seen == nil || ranksLeft == 0 {
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
			ranksLeft-- // the member, or its next incarnation, has this rank
		}
	}
	return ""
}

// unasked reports whether a neighbour of a lost node has not answered yet.
func (p *planner) unasked() bool {
	return slices.ContainsFunc(p.v.Members, func(m verdict.Member) bool { return m.Unasked })
}

// doubts reports whether a node is suspect or absent.
func (p *planner) doubts() bool {
	return slices.ContainsFunc(p.v.Members, func(m verdict.Member) bool {
		return m.State == verdict.Suspect || m.State == verdict.Absent
	})
}
