package plan

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/schema"
)

// unreadable reports whether the resume checkpoint is bad: a node that the barrier waits for says
// that it cannot get it. It is settled if that node has asked all nodes that had it at its commit,
// so that no later node can provide it. Falling back earlier would lose a commit.
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
// registered. It has then asked all of them.
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

// fallBack makes an older checkpoint the head: the newest one that a node has. It gets a new number,
// because the head always has the largest one. While a node is away that may have a newer one, the job
// waits. A node that held a checkpoint at its commit, and does not write its inventory within the limit
// of the barrier, counts as one that has it. If no node has an older checkpoint, the job fails and the
// head stays: if a disk was only missing, the next attempt goes on from the newest checkpoint. A job
// with a commit never starts from scratch.
func (p *planner) fallBack() Step {
	bad, late := p.s.Head, !p.now.Before(p.m.PhaseSince.Add(p.t.Barrier))
	for _, older := range substitutes(p.s) {
		at := whereIs(p.s, older)
		switch {
		case at == here, at == promised && late:
			head := older.Again(bad)
			p.newHead, p.older = &head, older
			return p.change(rendezvous.CauseCheckpoint, fmt.Sprintf("checkpoint %d cannot be read", bad.Number),
				p.settleLedger(), nil)
		case at == away, at != nowhere && !late:
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

// rollback returns World.Rollback for generation g. It is g itself if the newest commit is not
// trusted, or if an operator asked for a restart, or restored a checkpoint, which moves the fence and
// makes no world. Else it is that of the world before. A commit that cannot be read is no rollback, because a state in
// memory is at least as new.
func (p *planner) rollback(g schema.Generation) schema.Generation {
	switch {
	case p.newHead != nil && p.distrust != "" || p.w != nil && p.s.Fence > p.w.Generation, restarts(p.s):
		return g
	case p.w != nil:
		return p.w.Rollback
	}
	return 0
}

// useOlderCheckpoint makes an older checkpoint the head if the ledger asks for it. It does nothing
// if another step did so already, or if the operator chose a checkpoint in the meantime.
func (p *planner) useOlderCheckpoint(l *rendezvous.Ledger) {
	b := l.Back
	if l.Back = nil; b == nil || p.newHead != nil || p.s.Head.Number != b.From ||
		p.s.Fence != p.w.Generation {
		return
	}
	for i, h := range p.s.History {
		if h.Number == b.To {
			head := h.Again(p.s.Head)
			p.newHead, p.older, p.distrust = &head, &p.s.History[i], b.Why
		}
	}
}
