package status

import (
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// TimingObserver measures the change to the next World, as one agent sees it. That agent owns it.
type TimingObserver struct {
	generation schema.Generation
	ready      int64 // revision of the newest Ready so far
	short      bool  // there were too few nodes at the last Observe

	what, last                                        string
	sign, decided, enough, proposed, stopped, barrier time.Time
	// when the first node began to stop its workers; zero: none had any
	idle time.Time
}

// Look is the input of Observe: what an agent sees of a job at one time.
type Look struct {
	Snapshot *rendezvous.Snapshot
	View     verdict.View
	Own      string    // a sign that only this agent saw; "": none
	Step     plan.Step // the planned step
	Now      time.Time
}

// Observe records what l shows for the first time.
func (f *TimingObserver) Observe(l Look) {
	s, v, now := l.Snapshot, l.View, l.Now
	var g schema.Generation
	if s.World != nil {
		g = s.World.Generation
	}
	if g != f.generation {
		f.generation, f.ready, f.proposed = g, 0, now
		f.last, f.stopped, f.barrier, f.idle = "", time.Time{}, time.Time{}, time.Time{}
	}
	if s.Job == nil {
		return
	}
	enough := plan.Present(s, v) >= s.Least()
	switch w := s.World; {
	case w == nil || w.Attempt != s.Job.Attempt:
		if !enough {
			*f = TimingObserver{generation: g}
			return
		}
		f.begin(rendezvous.SignNodes, now)
	case w.Phase == rendezvous.Running:
		what := firstSign(s, v, l.Own)
		if what == "" {
			*f = TimingObserver{generation: g}
			return
		}
		if asksForGrowth(f.what) && !asksForGrowth(what) && f.decided.IsZero() {
			*f = TimingObserver{generation: g} // a loss during a last call is a sign of its own
		}
		f.begin(what, now)
	case w.Phase == rendezvous.Waiting:
		f.begin(rendezvous.SignUnseen, now)
		if f.short && enough {
			f.enough = now
		}
		f.short = !enough
	case w.Phase == rendezvous.Forming:
		f.begin(rendezvous.SignUnseen, now)
		f.barriers(s, now)
	default:
		*f = TimingObserver{generation: g}
		return
	}
	switch l.Step.(type) {
	case plan.Propose, plan.Hold:
		note(&f.decided, now)
	case plan.Run:
		note(&f.barrier, now)
	}
}

// begin records the first sign.
func (f *TimingObserver) begin(what string, now time.Time) {
	if f.sign.IsZero() {
		f.what, f.sign = what, now
	}
}

// note sets t to now, unless it is set.
func note(t *time.Time, now time.Time) {
	if t.IsZero() {
		*t = now
	}
}

// barriers records the nodes that became Ready. Each node reports how long ago its workers had
// stopped, by its own clock. That duration is subtracted from now, so the time that Ready took
// through the store counts as stopping.
func (f *TimingObserver) barriers(s *rendezvous.Snapshot, now time.Time) {
	newest := f.ready
	for node, r := range s.Ready {
		if r.Rev <= f.ready {
			continue
		}
		if r.Rev > newest {
			newest, f.last = r.Rev, node
		}
		if r.AfterMS == nil {
			continue
		}
		at := now.Add(-time.Duration(*r.AfterMS) * time.Millisecond)
		if at.After(f.stopped) {
			f.stopped = at
		}
		if halted := at.Add(-time.Duration(r.StopMS) * time.Millisecond); f.idle.IsZero() ||
			halted.Before(f.idle) {
			f.idle = halted
		}
	}
	f.ready = newest
}

// firstSign returns the sign that a running World has to end; "": there is none.
func firstSign(s *rendezvous.Snapshot, v verdict.View, own string) string {
	switch {
	case own != "":
		return own
	case s.Failure != nil:
		return rendezvous.SignFailure
	}
	// Leavers are skipped: a leaver that is gone changes nothing while this World runs.
	for _, m := range v.Members[:min(len(v.Members), len(s.World.Members))] {
		if m.State == verdict.Alive {
			continue
		}
		for _, x := range s.Suspects {
			if x.Incarnation == m.Incarnation {
				return string(x.Sign)
			}
		}
		if m.Reason == "left" {
			return rendezvous.SignLeft
		}
		return string(membership.LeaseExpired)
	}
	switch {
	case plan.WishPending(s, v), s.Wish.Stop == s.Job.Attempt, plan.Drained(s):
		return rendezvous.SignWish
	case plan.Grows(s, v) && s.Wish.Request != s.World.Request:
		return rendezvous.SignWish
	case plan.Grows(s, v):
		return rendezvous.SignNodes
	}
	return ""
}

// asksForGrowth reports whether the workers train on until the last call after this sign.
func asksForGrowth(what string) bool {
	return what == rendezvous.SignWish || what == rendezvous.SignNodes
}

// Timing returns the timing up to the barrier.
func (f *TimingObserver) Timing(by string) rendezvous.Timing {
	return rendezvous.Timing{By: by, Sign: f.what, Last: f.last, Decided: f.since(f.decided),
		Enough:   f.since(f.enough),
		Proposed: f.since(f.proposed), Stopped: f.since(f.stopped), Barrier: f.since(f.barrier)}
}

// Idle is how long the workers have not trained: the time since the first node began to stop its
// own. Only nodes that had workers count, so the time before a newcomer joined is included. 0: not
// known.
func (f *TimingObserver) Idle(now time.Time) time.Duration {
	if f.idle.IsZero() {
		return 0
	}
	return now.Sub(f.idle)
}

// Sign is the time of the first sign.
func (f *TimingObserver) Sign() time.Time { return f.sign }

// since returns the milliseconds from the first sign to t; nil: t did not happen.
func (f *TimingObserver) since(t time.Time) *int64 {
	if t.IsZero() || f.sign.IsZero() {
		return nil
	}
	return new(max(0, t.Sub(f.sign).Milliseconds()))
}

// waterfall returns the timing of the newest World, from the events; nil until it runs.
func (x *explainer) waterfall() *rendezvous.Timing {
	if x.s.World == nil {
		return nil
	}
	for i := len(x.s.Events) - 1; i >= 0; i-- {
		e := x.s.Events[i]
		if e.Generation != x.s.World.Generation ||
			e.Kind != history.Started && e.Kind != history.WorldRunning {
			continue
		}
		if t := history.Field[*rendezvous.Timing](&e, "waterfall"); t != nil {
			return t
		}
	}
	return nil
}
