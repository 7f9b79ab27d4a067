package rendezvous

import (
	"github.com/elasticd/elastic/pkg/scaling"
)

// stop: a stop of this attempt goes before everything but done.
func (p *planner) stop() Step {
	outcome := Outcome{Code: exitNever, Source: "operator", Message: "the operator asked for it"}
	end := func() Step {
		led, lost := Ledger{}, p.untold()
		if p.w != nil && p.w.Attempt == p.s.Job.Attempt {
			led = p.w.Ledger.lose(lost)
		}
		return End{Phase: Stopped, Outcome: outcome, Ledger: led, Lost: lost}
	}
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt {
		return end()
	}
	if (p.w.Phase == Finishing || p.w.Phase == Waiting) && p.allZero() {
		return p.done()
	}
	switch {
	case p.w.Phase != Waiting:
		return Enter{Hold: Hold{Why: Draining, Text: "the job is asked to stop", Planned: true, Reason: "stop", Grace: p.s.Wish.Grace, Present: p.present()}, Ledger: p.w.Ledger}
	case !p.w.Hold.Planned || p.through() || p.unplanned():
		return end()
	}
	return Nothing{p.m.Phase.Add(p.w.Hold.Limit(p.s.Job) + p.t.Slack)}
}

// allZero reports whether every worker of every member ended of itself with 0.
func (p *planner) allZero() bool {
	for _, m := range p.w.Members {
		if x, ok := p.s.Exits[m.Node]; !ok || x.Incarnation != m.Incarnation || len(x.Codes) != p.w.Slots || !x.Zero() {
			return false
		}
	}
	return len(p.w.Members) > 0
}

func (p *planner) done() Step {
	lost := p.untold()
	return End{Phase: Done, Outcome: Outcome{Source: "worker", Message: "every worker ended with 0"}, Ledger: p.books().Ledger.lose(lost), Lost: lost}
}

// fits reports whether there is a batch plan for the nodes at hand.
func (p *planner) fits() bool {
	_, err := p.batch(p.size())
	return err == nil
}

// batch is the batch and rate plan for n nodes.
func (p *planner) batch(n int) (*scaling.Plan, error) {
	return scaling.For(p.s.Job.Base, n*p.s.Job.Slots)
}
