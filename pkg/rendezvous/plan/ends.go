package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
)

// stop ends the attempt because the operator asked for it. Only a job that is done is not stopped.
func (p *planner) stop() Step {
	outcome := rendezvous.Outcome{Code: ledger.ExitNever, Source: "operator",
		Message: "the operator asked for it"}
	end := func() Step {
		led, lost := rendezvous.Ledger{}, p.unreported()
		unsaved := ""
		if p.w != nil && p.w.Attempt == p.s.Job.Attempt {
			if unsaved = p.unsaved(); unsaved != "" {
				outcome.Message += "; " + unsaved
			}
			led = ledger.CountLost(p.w.Ledger, p.w, lost, p.now)
		}
		return End{Phase: rendezvous.Stopped, Outcome: outcome, Ledger: led, Lost: lost, Unsaved: unsaved}
	}
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt {
		return end()
	}
	if (p.w.Phase == rendezvous.Finishing || p.w.Phase == rendezvous.Waiting) && p.allZero() {
		return p.done()
	}
	switch {
	case p.w.Phase != rendezvous.Waiting:
		return Hold{Hold: rendezvous.Hold{Why: rendezvous.Draining, Text: "the job is asked to stop",
			Planned: true,
			Reason:  "stop", Grace: p.s.Wish.Grace, Present: Present(p.s, p.v)}, Ledger: p.w.Ledger}
	case !p.w.Hold.Planned || p.saved() || p.unplanned():
		if text := p.unsaved(); text != "" && p.s.Wish.RequireSave {
			return p.refuseStop(text)
		}
		return end()
	}
	return Nothing{p.m.PhaseSince.Add(p.w.Hold.Limit(p.s.Job) + p.t.Slack)}
}

// refuseStop takes the request to stop back, because the workers did not save. The job goes on.
func (p *planner) refuseStop(unsaved string) Step {
	return Hold{Hold: rendezvous.Hold{Why: rendezvous.LastCall, Text: "the stop is refused: " + unsaved,
		Unsaved: unsaved, Present: Present(p.s, p.v), Cause: rendezvous.CauseAsked}, Ledger: p.w.Ledger}
}

// unsaved says what training is lost because the workers did not save when a planned Hold asked them to;
// "": they saved, or keep the state in memory. A save counts if it was committed after the workers were
// asked.
func (p *planner) unsaved() string {
	h, head := p.w.Hold, p.s.Head
	switch {
	case h != nil && h.Unsaved != "":
		return h.Unsaved
	case h == nil || !h.Planned || p.w.Master == nil || head.Rev > p.w.Rev || p.inMemory():
		return ""
	case head.Number == 0:
		return "did not save: there is no checkpoint"
	}
	lost := p.w.Time.Sub(head.Time)
	if ran := p.m.ran(p.now); ran > 0 {
		lost = min(lost, ran) // no more than this generation trained
	}
	if lost = lost.Round(time.Second); lost < time.Second {
		return "" // it had just saved
	}
	return fmt.Sprintf("did not save: %s since checkpoint %d are lost", lost, head.Number)
}

// inMemory reports whether workers of a member wait with the state of training.
func (p *planner) inMemory() bool {
	return slices.ContainsFunc(p.w.Members, func(m membership.Ref) bool {
		x, ok := p.s.Exits[m.Node]
		return ok && x.Incarnation == m.Incarnation && x.Waits
	})
}

// allZero reports whether every worker of every member ended by itself with 0.
func (p *planner) allZero() bool {
	for rank, m := range p.w.Members {
		workers := p.w.Workers(rank)
		if workers == 0 {
			continue // only servers run there
		}
		if x, ok := p.s.Exits[m.Node]; !ok || x.Incarnation != m.Incarnation || len(x.Codes) != workers ||
			!x.Zero() {
			return false
		}
	}
	return len(p.w.Members) > 0
}

// done ends the attempt after every worker ended with 0.
func (p *planner) done() Step {
	lost := p.unreported()
	return End{Phase: rendezvous.Done,
		Outcome: rendezvous.Outcome{Source: "worker", Message: "every worker ended with 0"},
		Ledger:  ledger.CountLost(p.settleLedger().Ledger, p.w, lost, p.now), Lost: lost}
}

// StopWithoutNodes ends an attempt that was asked to stop while no node is registered. As there is
// no agent to write the end, the command that asked for the stop writes it. If all ranks finished,
// the job is done instead.
func StopWithoutNodes(s *rendezvous.Snapshot, now time.Time) End {
	p := planner{s: s, v: StoreView(s, now), t: DefaultTimeouts, now: now}
	if w := s.World; w != nil && w.Attempt == s.Job.Attempt {
		held := *w
		held.Phase, held.Hold = rendezvous.Waiting, &rendezvous.Hold{} // an unplanned Hold ends at once
		p.w, p.m = &held, Observed{PhaseSince: w.Time}
	}
	return p.stop().(End)
}

// StoreView judges the members by the store alone, without evidence of an agent.
func StoreView(s *rendezvous.Snapshot, now time.Time) verdict.View {
	if s.World == nil {
		return verdict.View{}
	}
	w := s.World
	refs := append(w.Members[:len(w.Members):len(w.Members)], w.Leavers...)
	return verdict.Judge(verdict.Records{Members: refs, Nodes: s.Nodes, Left: s.Left, Suspects: s.Suspects},
		verdict.Evidence{}, verdict.Timeouts{}, now)
}
