package rendezvous

import (
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// maxDropped leaves room in Propose for its own guards; who is dropped beyond it passes the barrier
// as a leaver, which needs no guard.
const maxDropped = 100

// mostEvents of losses go with one Propose; history has room for a thousand.
const mostEvents = 900

// planned asks the workers to save first.
func (p *planner) planned(c Cause, text string) Step {
	reason := map[Cause]string{Scale: "scale", Drain: "drain", NodeJoined: "join"}[c]
	return Enter{Hold: Hold{Why: Saving, Text: text, Planned: true, Reason: reason, Present: p.present(), Cause: c}, Ledger: p.books().Ledger}
}

// books closes the books of the present generation, once: a Hold that did it carries the result. One that a
// member wrote who leaves, or that asks to stop, did not.
func (p *planner) books() Settled {
	if p.w.Ledger.Closed == p.w.Generation {
		b := Settled{Ledger: p.w.Ledger}
		b.Pardoned = len(p.broke()) > 0 && b.Ledger.pardon(p.w)
		return b
	}
	f := p.s.Failure
	if p.w.Phase == Forming {
		f = nil
	}
	told := p.s.Progress != nil && p.s.Progress.Step != nil
	return settle(p.w, p.s.Job.Rules, p.s.Head.Number, f, len(p.broke()) > 0, p.m.ran(p.now), told)
}

// change is an unplanned cause: the next World at once where a plan is at hand, else a Hold.
func (p *planner) change(c Cause, text string, failure bool) Step {
	b := p.books()
	var told *Told
	if failure {
		told = &Told{Failure: *p.s.Failure, Collateral: b.Collateral, Spent: b.Spent}
		if p.s.Failure.Again() {
			c = Asked
		}
		if b.Collateral {
			c, text = NodeLost, p.whoWasLost(p.broke())
		}
	}
	switch {
	case b.Fail != nil:
		lost := p.untold()
		return End{Phase: Failed, Outcome: *b.Fail, Ledger: b.Ledger.lose(lost), Lost: lost, Failure: told}
	case b.Backoff > 0:
		lost := p.untold()
		return Enter{Hold: Hold{Why: BackingOff, Backoff: Seconds(b.Backoff), Present: p.present(), Cause: c,
			Text: fmt.Sprintf("%s; restart %d of %d in %s", text, b.Ledger.Used, p.s.Job.Rules.MaxRestarts, b.Backoff)},
			Ledger: b.Ledger.lose(lost), Lost: lost, Failure: told}
	}
	step := p.propose(c, text, b)
	switch step := step.(type) {
	case Propose:
		step.Failure = told
		return step
	case Nothing:
		if p.blocked() != "" {
			return step
		}
		e := p.enter(c, text, b)
		e.Failure = told
		return e
	}
	return step
}

// enter is an unplanned Hold: below the least size, or no batch plan for the nodes at hand.
func (p *planner) enter(c Cause, text string, b Settled) Enter {
	h := Hold{Why: NodesMissing, Text: text, Present: p.present(), Cause: c}
	if n := p.size(); n >= max(1, p.s.least()) {
		if _, err := p.batch(n); err != nil {
			h.Why, h.Text = PlanImpossible, err.Error()
		}
	}
	lost := p.untold()
	return Enter{Hold: h, Lost: lost, Ledger: b.Ledger.lose(lost), Quarantine: p.w.Quarantine}
}

// size is the number of nodes that a World would have now.
func (p *planner) size() int { return min(len(candidates(p.s, p.v)), p.s.target()) }

func (p *planner) present() int { return len(candidates(p.s, p.v)) }

// blocked names an old member that is neither gone nor present nor cut by the wish: it may be
// about to register again, and a World without it would stop a healthy node. A suspect blocks too, for as
// long as a verdict takes: others may have it already, and would undo a World with it.
func (p *planner) blocked() string {
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt || !p.doubts() {
		return ""
	}
	here := map[string]membership.Incarnation{}
	for _, n := range candidates(p.s, p.v) {
		here[n.Node] = n.Incarnation
	}
	out, late := setOf(p.s.Wish.Drain), quarantined(p.w)
	places := p.s.target() // that are left for those behind: who finds none is cut by the wish
	for rank, m := range p.w.Members {
		seen := p.v.Find(m)
		if seen == nil || places == 0 {
			break
		}
		goesOn := here[m.Node] == m.Incarnation
		doubted := goesOn && seen.State == membership.Suspect && p.now.Before(p.m.Doubt.Add(p.t.Verdict))
		away := seen.State == membership.Absent && !seen.Waited && !seen.Failed && !out[m.Node] && !late[m.Node]
		switch {
		case doubted || away:
			return m.Node
		case goesOn, here[m.Node] != "" && rank < p.s.target():
			places-- // it goes on, or its next life has its rank
		}
	}
	return ""
}

// doubts reports whether somebody is neither alive for certain nor gone.
func (p *planner) doubts() bool {
	return slices.ContainsFunc(p.v.Members, func(m membership.Seen) bool {
		return m.State == membership.Suspect || m.State == membership.Absent
	})
}

// propose is the next World, or Nothing when there can be none now.
func (p *planner) propose(c Cause, text string, b Settled) Step {
	n := p.size()
	if n < max(1, p.s.least()) || p.blocked() != "" {
		return Nothing{p.now.Add(p.t.Verdict / 3)}
	}
	plan, err := p.batch(n)
	if err != nil {
		if p.w != nil && p.w.Phase == Waiting && p.w.Hold.Why == PlanImpossible {
			return Nothing{}
		}
		if p.w == nil {
			return Nothing{}
		}
		return p.enter(c, text, b)
	}
	w := World{UID: p.s.Job.UID, Attempt: p.s.Job.Attempt, Phase: Forming, Count: n, Slots: p.s.Job.Slots,
		Cause: c, CauseText: text, Request: p.s.Wish.Request, WishRev: p.s.Wish.Rev, NP: p.s.Wish.NP,
		Plan: plan, LRScale: p.s.Job.Base.LRScale(n * p.s.Job.Slots), Ledger: b.Ledger}
	w.Generation = p.s.Fence
	for _, x := range p.s.Nodes {
		w.Generation = max(w.Generation, x.Seen)
	}
	w.Generation++
	var old, oldLeavers []membership.Ref
	if p.w != nil {
		old, oldLeavers = p.w.Members, p.w.Leavers
		w.Previous = p.w.Previous
		if p.w.Master != nil {
			w.Previous = p.w.Size()
		}
		w.Quarantine = slices.DeleteFunc(slices.Clone(p.w.Quarantine), func(q Quarantine) bool {
			return q.Until+schema.Generation(4*q.Times) <= w.Generation // forgotten after behaving for a while
		})
	}
	w.Members = arrange(old, candidates(p.s, p.v), n, p.s.holds)
	h := p.s.Head
	if p.newHead != nil {
		h = *p.newHead
	}
	if h.Number > 0 {
		w.Resume = &Resume{Number: h.Number, Manifest: h.Manifest, Step: h.Step, Samples: h.Samples}
		for _, r := range h.Holders {
			w.Resume.Holders = append(w.Resume.Holders, r.Node)
		}
	}
	if p.w != nil && w.Resume != nil && w.Resume.Samples != nil {
		w.Plan.WarmFrom(p.w.Plan, *w.Resume.Samples, p.s.Job.Base.WarmupSamples)
	}
	step := Propose{NewHead: p.newHead, Older: p.older}
	var told map[membership.Incarnation]bool
	if p.w != nil {
		told = setOf(p.w.Told)
	}
	placed, late := livesOf(w.Members), setOf(p.evict)
	for i, o := range slices.Concat(old, oldLeavers) {
		if placed.has(o) {
			continue
		}
		placed.add(o)
		seen := p.v.Find(o)
		if seen == nil {
			w.Leavers = append(w.Leavers, o)
			continue
		}
		lost := seen.State == membership.Gone
		switch room := len(step.Evicted)+len(step.Dropped) < maxDropped; {
		case room && seen.Mine && (lost || late[o.Node] || seen.State == membership.Suspect && told[o.Incarnation]):
			// Also who was told lost and does not answer: as a leaver it would hold the barrier up.
			step.Evicted, lost = append(step.Evicted, *seen), true
		case room && !seen.Mine:
			step.Dropped, lost = append(step.Dropped, *seen), lost || i < len(old)
		default:
			w.Leavers = append(w.Leavers, o)
		}
		if lost && p.tells(*seen) && len(step.Lost) < mostEvents {
			news := p.news(*seen)
			if late[o.Node] && seen.State != membership.Gone && seen.Mine {
				news.Reason, news.Why = "not-ready", "not ready in time"
			}
			step.Lost = append(step.Lost, news)
			if told == nil {
				told = map[membership.Incarnation]bool{}
			}
			told[o.Incarnation] = true
		}
	}
	for _, l := range w.Leavers {
		if told[l.Incarnation] {
			w.Told = append(w.Told, l.Incarnation)
		}
	}
	w.Ledger = w.Ledger.lose(step.Lost)
	step.World = w
	if p.w != nil && p.w.Phase == Forming && p.w.Request == w.Request && slices.EqualFunc(p.w.Members, w.Members, membership.Ref.Same) &&
		len(step.Evicted) == 0 && p.newHead == nil {
		return Nothing{}
	}
	return step
}

func (p *planner) wishCause() Cause {
	if p.s.Wish.By == "drain" {
		return Drain
	}
	return Scale
}

func (p *planner) wishText() string {
	return fmt.Sprintf("np %d was asked (it is %d)", p.s.Wish.NP, p.w.Count)
}

// drained reports whether a member is asked to go.
func (p *planner) drained() bool {
	drained := setOf(p.s.Wish.Drain)
	return len(drained) > 0 && slices.ContainsFunc(p.w.Members, func(m membership.Ref) bool { return drained[m.Node] })
}
