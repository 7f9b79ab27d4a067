package plan

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/schema"
)

// unreadable reports whether a node that the barrier waits for says that the resume checkpoint
// cannot be had, and whether that is settled: every node that had it at its commit is here, so that
// no later node can provide it. Falling back earlier would lose what was acknowledged.
func (p *planner) unreadable(missing []string) (bad, settled bool) {
	r := p.w.Resume
	if r == nil || p.s.Head.Number != r.Number {
		return false, false
	}
	late := rendezvous.SetOf(missing)
	for _, d := range p.s.Doing {
		if d.Kind == "unreadable" && d.Done == int64(r.Number) && late[d.Node] {
			bad = true
			settled = settled || p.asked(d)
		}
	}
	return bad, settled
}

// asked reports whether the node of d began to ask for the checkpoint after every holder had
// registered: then it has asked all of them.
func (p *planner) asked(d rendezvous.Activity) bool {
	rev := d.Rev
	if d.Since > 0 {
		rev = d.Since + 1
	}
	for _, h := range p.s.Head.Holders {
		if n := p.s.Node(h.Node); n == nil || n.Rev >= rev {
			return false
		}
	}
	return true
}

// fallBack makes the newest older checkpoint that a node has the head, under a new number: numbers are
// the order. While a node that may have a newer one is away, the job waits. If no node has one, the job
// ends, loudly, and the head stays: where a disk is only missing for a time, the next attempt goes on
// from the newest checkpoint. A job never starts from scratch when there was a commit.
func (p *planner) fallBack() Step {
	bad := p.s.Head
	for _, older := range substitutes(p.s) {
		at := WhereIs(p.s, older)
		switch {
		case at == Here:
			head := *older
			head.Number = bad.Number + 1
			p.newHead, p.older = &head, older
			return p.change(rendezvous.CauseCheckpoint, fmt.Sprintf("checkpoint %d cannot be read", bad.Number))
		case at == Away, at == Untold && p.now.Before(p.m.PhaseSince.Add(p.t.Barrier)):
			return Nothing{p.now.Add(p.t.Barrier / 10)}
		}
	}
	lost := p.unreported()
	return End{Phase: rendezvous.Failed, Ledger: ledger.CountLost(p.w.Ledger, p.w, lost, p.now),
		Lost: lost,
		Outcome: rendezvous.Outcome{Code: ledger.ExitNever, Source: "elastic",
			Why: rendezvous.CheckpointLost,
			Message: fmt.Sprintf(
				"checkpoint %d cannot be read on any of its holders, and no node has an older one", bad.Number)}}
}

// rollback is the Rollback of generation g, which is proposed. It is g itself if the newest commit
// is not trusted, or if an operator restored a checkpoint, which moves the fence and makes no
// world; else that of the world before. A commit that cannot be read does not count: a state in
// memory is at least as new.
func (p *planner) rollback(g schema.Generation) schema.Generation {
	switch {
	case p.newHead != nil && p.distrust != "" || p.w != nil && p.s.Fence > p.w.Generation:
		return g
	case p.w != nil:
		return p.w.Rollback
	}
	return 0
}

// back makes an older checkpoint the newest where the books say so, unless that was done already or
// an operator chose one meanwhile.
func (p *planner) back(l *rendezvous.Ledger) {
	b := l.Back
	if l.Back = nil; b == nil || p.newHead != nil || p.s.Head.Number != b.From ||
		p.s.Fence != p.w.Generation {
		return
	}
	for i, h := range p.s.History {
		if h.Number == b.To {
			head := h
			head.Number = p.s.Head.Number + 1
			p.newHead, p.older, p.distrust = &head, &p.s.History[i], b.Why
		}
	}
}
