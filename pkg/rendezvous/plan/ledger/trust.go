package ledger

// This file decides whether the checkpoint that a failed generation began from is used again. A
// checkpoint can be intact and still be worthless, because the state was already bad when it was
// saved. It is trusted after enough steps were made from it. It is not trusted any more if
// generations that began from it fail twice at the same step, by two nodes or by one that the job
// needs, or if a loss is not a number soon after.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	// trustedAfter is the number of steps from a checkpoint after which it is trusted.
	trustedAfter = 10
	// MostRollbacks bounds how often in a row a failing job goes back to an older checkpoint. A
	// loss that is not a number has its own limit, Rules.Rollbacks.
	MostRollbacks = 3
)

// ending is how a generation ended that failed by itself.
type ending struct {
	failure  *rendezvous.Failure
	resume   *rendezvous.Resume // the checkpoint that it began from; nil: from scratch
	previous *rendezvous.Death  // the previous such end
	history  []checkpoint.Head
	head     checkpoint.Head // the newest commit
	// alone: the same node failed before, and the job can go on without it. The node is the reason
	// then, and not the checkpoint.
	alone bool
}

// step is the last step that the generation made; nil: not known.
func (e ending) step() *int64 {
	switch {
	case e.failure.Step != nil:
		return e.failure.Step
	case e.resume != nil && e.head.Number > e.resume.Number:
		return e.head.Step // the generation committed it
	case e.resume != nil:
		return e.resume.Step // no step was reported, so none was made
	}
	return nil
}

// again reports whether the previous such end was at the same step, and not by one node alone.
func (e ending) again() bool {
	at := e.step()
	return at != nil && !e.alone && e.previous != nil && *at == e.previous.Step
}

// made is the number of steps that were made from the checkpoint; false: not known.
func (e ending) made() (int64, bool) {
	at := e.step()
	if at == nil || e.resume == nil || e.resume.Step == nil {
		return 0, false
	}
	return *at - *e.resume.Step, true
}

// suspects reports whether the checkpoint that the generation began from is no longer trusted, and
// why.
func (e ending) suspects() (why string, suspected bool) {
	made, known := e.made()
	switch {
	case e.resume == nil:
		return "", false
	case e.again():
		return fmt.Sprintf("two generations in a row died at step %d", *e.step()), true
	case known && e.failure.NaN && made < trustedAfter:
		return fmt.Sprintf("the loss was not a number %d steps after it was loaded", made), true
	case known && !e.alone && made <= 0 && e.previous != nil && e.previous.WentBack:
		return "no step was made from it", true
	}
	return "", false
}

// target returns the checkpoint to go on from, and why; nil: the newest.
func (e ending) target(head checkpoint.Head) (to *checkpoint.Head, why string) {
	if why, suspected := e.suspects(); suspected {
		return e.before(), why
	}
	if !e.failure.NaN || e.step() == nil {
		return nil, ""
	}
	// A checkpoint that was saved at the bad step or later is bad too.
	if sound(head, *e.step()) {
		return nil, ""
	}
	for i, h := range e.history {
		if sound(h, *e.step()) && (to == nil || h.Number > to.Number) {
			to = &e.history[i]
		}
	}
	return to, fmt.Sprintf("the loss was not a number at step %d already", *e.step())
}

// sound reports whether a checkpoint was saved before a step went wrong.
func sound(h checkpoint.Head, wrong int64) bool { return h.Step == nil || *h.Step < wrong }

// before returns the newest checkpoint that is older than the one that the generation began from;
// nil: there is none.
func (e ending) before() (older *checkpoint.Head) {
	if all := Before(e.history, e.resume.Number, e.resume.Manifest); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Before returns the checkpoints that can replace the one of that number and those bytes, the newest
// first: those that are older than the first checkpoint with these bytes.
func Before(
	history []checkpoint.Head, number checkpoint.Number, bytes checkpoint.Hash,
) (all []*checkpoint.Head) {
	for _, h := range history {
		if h.Manifest == bytes {
			number = min(number, h.Number)
		}
	}
	for i := range history {
		if h := &history[i]; h.Number < number {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *checkpoint.Head) int { return cmp.Compare(b.Number, a.Number) })
	return all
}

// Ending is how a generation ended that failed by itself.
type Ending struct {
	Snapshot    *rendezvous.Snapshot
	Failure     *rendezvous.Failure
	Dispensable bool // np allows a world without the node of the failure
}

// SettleTrust decides about the checkpoint that a failed generation began from. It sets in b which
// checkpoint the next generation begins from, or that the job has failed. The failures of one node
// that the job can do without say nothing about a checkpoint.
func SettleTrust(x Ending, b *Settled) {
	l, s, f := &b.Ledger, x.Snapshot, x.Failure
	e := ending{failure: f, resume: s.World.Resume, previous: l.Death, history: s.History, head: s.Head,
		alone: x.Dispensable && l.Death != nil && l.Death.Node == f.Node}
	at := e.step()
	if at == nil {
		return
	}
	rolled := 0
	if l.Death != nil && *at <= l.Death.Step {
		rolled = l.Death.Rollbacks // no step after that one was made since
	}
	l.Death = &rendezvous.Death{Node: f.Node, Step: *at, Rollbacks: rolled}
	if f.NaN {
		settleNaN(s, e, b)
		if b.Fail != nil {
			return
		}
	}
	to, why := e.target(s.Head)
	if to == nil && why != "" && f.NaN {
		b.Fail = lossOutcome(f,
			fmt.Sprintf("the loss is not a number at step %d, and no older checkpoint is left", *at))
		return
	}
	if to == nil || !f.NaN && rolled >= MostRollbacks {
		return
	}
	l.Death.Rollbacks, l.Death.WentBack = rolled+1, true
	l.Back = &rendezvous.Back{From: s.Head.Number, To: to.Number, Why: why}
}

// settleNaN applies the rule of the job for a loss that is not a number. It spends no restart,
// because the rule has its own limit.
func settleNaN(s *rendezvous.Snapshot, e ending, b *Settled) {
	rules, rolled, at := s.Job.Rules, b.Ledger.Death.Rollbacks, b.Ledger.Death.Step
	b.Ledger.Used, b.Ledger.Charged = s.World.Ledger.Used, s.World.Ledger.Charged
	b.Spent, b.Backoff, b.Fail = false, 0, nil
	switch {
	case rules.OnNaN == rendezvous.NaNFails:
		b.Fail = lossOutcome(e.failure, fmt.Sprintf("the loss is not a number at step %d", at))
	case rolled >= rules.Rollbacks:
		b.Fail = lossOutcome(e.failure,
			fmt.Sprintf("the loss is not a number at step %d, after going back %d times", at, rolled))
	}
}

// lossOutcome returns the outcome of a job that fails because the loss is not a number.
func lossOutcome(f *rendezvous.Failure, message string) *rendezvous.Outcome {
	return &rendezvous.Outcome{Code: ExitNever, Source: "elastic", Node: &f.Node,
		Why: rendezvous.LossNaN, Message: message}
}
