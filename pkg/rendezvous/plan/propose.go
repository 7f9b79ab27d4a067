package plan

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// propose returns the next World, or Nothing if there can be none now.
func (p *planner) propose(c rendezvous.Cause, text string, b ledger.Settled) Step {
	n := Size(p.s, p.v)
	if n < max(1, p.s.Least()) || p.blocked() != "" || p.s.LacksBrought() {
		return Nothing{p.now.Add(p.t.Verdict / 3)}
	}
	batch, err := Batch(p.s, n)
	if err != nil {
		if p.w == nil || p.w.Phase == rendezvous.Waiting && p.w.Hold.Why == rendezvous.PlanImpossible {
			return Nothing{}
		}
		return p.holdUnplanned(c, text, b)
	}
	p.useOlderCheckpoint(&b.Ledger)
	if p.w == nil && p.s.Head.Number == 0 {
		p.newHead, p.broughtFrom = p.s.NewestBrought()
	}
	w := p.successor(n, batch)
	w.Cause, w.CauseText, w.Ledger = c, text, b.Ledger
	if w.Generation > schema.MaxGeneration {
		return Nothing{} // a record of the job could not be read; status says so
	}
	p.arrangeMembers(&w)
	w.Ledger.Unproven = p.unproven(&w)
	p.resumeFrom(&w)
	step := Propose{NewHead: p.newHead, Older: p.older, Distrust: p.distrust, BroughtFrom: p.broughtFrom}
	p.sortDeparted(&w, &step)
	w.Ledger = ledger.CountLost(w.Ledger, p.w, step.Lost, p.now)
	w.Ledger.Nodes = ledger.AdmitMembers(w.Ledger.Nodes, w.Members,
		func(r *rendezvous.NodeRecord) bool { return admitted(p.s, r.Node, r.Since) })
	step.World = w
	if p.w != nil && p.w.Phase == rendezvous.Forming && p.w.Request == w.Request &&
		slices.EqualFunc(p.w.Members, w.Members, membership.Ref.Same) &&
		len(step.Evicted) == 0 && p.newHead == nil {
		return Nothing{}
	}
	return step
}

// successor returns the world of n nodes after p.w, still without members. Its generation is above
// every one that a node or the fence knows.
func (p *planner) successor(n int, batch *scaling.Plan) rendezvous.World {
	w := rendezvous.World{UID: p.s.Job.UID, Attempt: p.s.Job.Attempt, Phase: rendezvous.Forming,
		Count: n, Slots: p.s.Job.Slots, Request: p.s.Wish.Request, WishRev: p.s.Wish.Rev,
		NP: p.s.Target(Present(p.s, p.v)), Plan: batch, LRScale: p.s.Job.Base.LRScale(p.s.Job.Workers(n)),
		Ranks: p.s.Job.Roles.Ranks(p.s.Job.Place(n))}
	w.Generation = p.s.Fence
	for _, x := range p.s.Nodes {
		w.Generation = max(w.Generation, x.LastGeneration)
	}
	w.Generation++
	if p.w == nil {
		return w
	}
	w.Previous, w.Causes, w.Unsaved = p.w.Previous, p.w.Causes, p.unsaved()
	if p.w.Master != nil {
		w.Previous = p.w.Size()
	}
	w.Quarantine = slices.DeleteFunc(slices.Clone(p.w.Quarantine), func(q rendezvous.Quarantine) bool {
		return q.Until+schema.Generation(4*q.Times) <= w.Generation // deleted some generations after its end
	})
	return w
}

// arrangeMembers ranks the members. Members of p.w keep their rank if they can.
func (p *planner) arrangeMembers(w *rendezvous.World) {
	var old []membership.Ref
	if p.w != nil {
		old = p.w.Members
	}
	w.Members, w.Rollback = rankNodes(old, candidates(p.s, p.v), w.Count, p.s.Holds), p.rollback(w.Generation)
}

// unproven returns the members of w that came after the job had trained, and made no step with it
// yet. If all members came so, none is listed.
func (p *planner) unproven(w *rendezvous.World) (names []string) {
	if p.w == nil || p.w.Attempt != w.Attempt || !w.Ledger.Reports && p.s.Head.Number == 0 {
		return nil
	}
	old := map[string]bool{}
	for _, m := range p.w.Members {
		old[m.Node] = !slices.Contains(w.Ledger.Unproven, m.Node)
	}
	for _, m := range w.Members {
		if !old[m.Node] {
			names = append(names, m.Node)
		}
	}
	if len(names) == len(w.Members) || len(names) > ledger.MostUnproven {
		return nil
	}
	return names
}

// resumeFrom sets the checkpoint that w begins with, and the warm-up that follows from its
// position.
func (p *planner) resumeFrom(w *rendezvous.World) {
	h := p.s.Head
	if p.newHead != nil {
		h = *p.newHead
	}
	if h.Number == 0 {
		return
	}
	w.Resume = &rendezvous.Resume{Number: h.Number, Manifest: h.Manifest, Step: h.Step, Samples: h.Samples}
	for _, r := range h.Holders {
		w.Resume.Holders = append(w.Resume.Holders, r.Node)
	}
	if p.w != nil && w.Resume.Samples != nil {
		w.Plan.WarmFrom(p.w.Plan, *w.Resume.Samples, p.s.Job.Base.WarmupSamples)
	}
}

// sortDeparted sorts the members and leavers of p.w that are no members of w. A node that is lost
// and still registered is evicted. A node that is not registered is dropped. The others become
// leavers. Each loss is reported once.
func (p *planner) sortDeparted(w *rendezvous.World, step *Propose) {
	var old, leavers []membership.Ref
	var reported map[membership.Incarnation]bool
	if p.w != nil {
		old, leavers = p.w.Members, p.w.Leavers
		reported = rendezvous.SetOf(p.w.ReportedLost)
	}
	placed, late := rendezvous.NewRefSet(w.Members), rendezvous.SetOf(p.evict)
	for i, o := range slices.Concat(old, leavers) {
		if placed.Has(o) {
			continue
		}
		placed.Add(o)
		seen := p.v.Find(o)
		if seen == nil {
			w.Leavers = append(w.Leavers, o)
			continue
		}
		lost := seen.State == verdict.Gone
		// As a leaver, a node that was reported lost and does not answer would hold the barrier up.
		reportedSilent := seen.State == verdict.Suspect && reported[o.Incarnation]
		switch room := len(step.Evicted)+len(step.Dropped) < maxDropped; {
		case room && seen.Registered && (lost || late[o.Node] || reportedSilent):
			step.Evicted, lost = append(step.Evicted, *seen), true
		case room && !seen.Registered:
			step.Dropped, lost = append(step.Dropped, *seen), lost || i < len(old)
		default:
			w.Leavers = append(w.Leavers, o)
		}
		if lost && p.isNewLoss(*seen) && len(step.Lost) < mostEvents {
			news := p.withDelay(*seen)
			if late[o.Node] && seen.State != verdict.Gone && seen.Registered {
				news.Reason, news.Why = "not-ready", "not ready in time"
			}
			step.Lost = append(step.Lost, news)
			if reported == nil {
				reported = map[membership.Incarnation]bool{}
			}
			reported[o.Incarnation] = true
		}
	}
	for _, l := range w.Leavers {
		if reported[l.Incarnation] {
			w.ReportedLost = append(w.ReportedLost, l.Incarnation)
		}
	}
}
