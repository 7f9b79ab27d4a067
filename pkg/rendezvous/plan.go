package rendezvous

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
)

// Step is what is to be done next. Whoever takes it proves by its guards that the snapshot it was
// planned on still holds.
type Step interface{ step() }

type (
	// Nothing is to be done, or not before Until.
	Nothing struct{ Until time.Time }
	// Propose makes World the next generation. It is the fence.
	Propose struct {
		World   World
		Evicted []membership.Seen // gone, and still registered: their keys are deleted
		Dropped []membership.Seen // members or leavers before, nothing now: shown to be unregistered
		Lost    []membership.Seen // of these two, whose loss nobody told of yet
		Failure *Told
		NewHead *checkpoint.Head // the newest commit is unreadable: this becomes the head
		Older   *checkpoint.Head // and it is this older one, under a new number
	}
	// Enter writes a Hold: the survivors wait.
	Enter struct {
		Hold       Hold
		Lost       []membership.Seen
		Ledger     Ledger
		Failure    *Told
		Quarantine []Quarantine // nil: as it is
	}
	// Run turns a forming world into a running one: the barrier is full.
	Run struct{ Master Master }
	// Finish notes that a worker is through.
	Finish struct{ Node string }
	// Tell says of nodes that were no members that they are lost. It is no cause of anything.
	Tell struct{ Lost []membership.Seen }
	// End closes the attempt: done, failed or stopped.
	End struct {
		Phase   Phase
		Outcome Outcome
		Ledger  Ledger
		Lost    []membership.Seen
		By      string // the node that takes the step, and so says who was lost
		Failure *Told
	}
)

func (Nothing) step() {}
func (Propose) step() {}
func (Enter) step()   {}
func (Run) step()     {}
func (Finish) step()  {}
func (Tell) step()    {}
func (End) step()     {}

// Told is a failure as it is told: judged.
type Told struct {
	Failure
	Collateral, Spent bool
}

// Times are the limits of Plan that are not the job's.
type Times struct {
	Barrier time.Duration // after which a forming world goes on without who is missing
	Verdict time.Duration // that a failure waits for an open suspicion
	Nearby  time.Duration // within which a suspicion that opens belongs to the failure
	Slack   time.Duration // that a planned stop may take beyond the grace
	Missing time.Duration // in which a node that is no member may be back after its registration ended
}

// DefaultTimes are those of docs/PROTOCOL.md.
var DefaultTimes = Times{Barrier: 30 * time.Second, Verdict: 1500 * time.Millisecond, Nearby: 50 * time.Millisecond, Slack: 2 * time.Second, Missing: 5 * time.Second}

// Plan is the next step of a job. It is pure: same snapshot, same view, same marks, same step.
func Plan(s *Snapshot, v membership.View, m Marks, t Times, now time.Time) Step {
	if s.Job == nil || s.Wish.Rev == 0 {
		return Nothing{}
	}
	p := planner{s: s, w: s.World, v: v, m: m, t: t, now: now}
	if w := s.World; w != nil && (w.Phase == Done || w.Attempt == s.Job.Attempt && w.Phase.Ended()) {
		return Nothing{}
	}
	step := p.next()
	if wait, idle := step.(Nothing); idle {
		return p.tell(wait)
	}
	return step
}

func (p *planner) next() Step {
	s, w := p.s, p.w
	switch {
	case s.Wish.Stop == s.Job.Attempt:
		return p.stop()
	case w == nil || w.Attempt != s.Job.Attempt:
		return p.first()
	}
	switch w.Phase {
	case Forming:
		return p.forming()
	case Running:
		return p.running()
	case Finishing:
		return p.finishing()
	default:
		return p.waiting()
	}
}

type planner struct {
	s   *Snapshot
	w   *World
	v   membership.View
	m   Marks
	t   Times
	now time.Time

	newHead, older *checkpoint.Head
	evict          []string // nodes that are dropped although nobody found them gone
}

// tell says who else is lost while there is nothing to be done: nobody waits for a node that is no member, and a spare that
// is not there when it is needed should have been missed before.
func (p *planner) tell(wait Nothing) Step {
	var t Tell
	for _, x := range p.m.missing {
		until := x.since.Add(p.t.Missing)
		if !p.now.Before(until) {
			t.Lost = append(t.Lost, membership.Seen{Ref: x.Ref, Reason: "lease-expired", Why: "lease expired", After: p.now.Sub(x.since), By: []string{"etcd"}})
		} else if wait.Until.IsZero() || until.Before(wait.Until) {
			wait.Until = until
		}
	}
	if len(t.Lost) > 0 {
		t.Lost = t.Lost[:min(len(t.Lost), maxTold)]
		return t
	}
	return wait
}

// after is Nothing before d has passed since from, and then next.
func (p *planner) after(from time.Time, d time.Duration, next func() Step) Step {
	if until := from.Add(d); p.now.Before(until) {
		return Nothing{until}
	}
	return next()
}

// first is the first World of an attempt.
func (p *planner) first() Step {
	cause := First
	if p.w != nil {
		cause = NewAttempt
	}
	return p.lastCall(func() Step { return p.propose(cause, "", Settled{}) })
}

// lastCall waits for enough nodes; between enough and the target a short time for those on their way.
func (p *planner) lastCall(next func() Step) Step {
	if len(candidates(p.s, p.v)) < p.s.least() {
		return Nothing{}
	}
	return p.atTarget(next)
}

// running: the only place where training happens.
func (p *planner) running() Step {
	for _, m := range p.w.Members {
		if x, ok := p.s.Exits[m.Node]; ok && x.Incarnation == m.Incarnation && !x.Planned && anyZero(x) {
			return Finish{m.Node}
		}
	}
	if f := p.s.Failure; f != nil {
		return p.failure(f)
	}
	if lost := p.lost(); len(lost) > 0 {
		return p.change(NodeLost, p.whoWasLost(lost), false)
	}
	switch {
	case p.s.Wish.Request != p.w.Request:
		return p.planned(p.wishCause(), p.wishText())
	case p.drained():
		return p.planned(Drain, "asked to go: "+join(p.s.Wish.Drain))
	}
	for _, n := range p.s.Nodes {
		if n.Seen > p.s.Fence {
			return p.planned(NodeJoined, fmt.Sprintf("%s has seen generation %d", n.Node, n.Seen))
		}
	}
	if p.grows() {
		return p.atTarget(func() Step { return p.planned(NodeJoined, "more nodes are here") })
	}
	return Nothing{}
}

// grows reports whether the next World would have more nodes than this one.
func (p *planner) grows() bool {
	return p.w.Count < p.s.target() && len(candidates(p.s, p.v)) > p.w.Count && p.fits()
}

// atTarget is next at once when the target is met, else after the last call.
func (p *planner) atTarget(next func() Step) Step {
	if len(candidates(p.s, p.v)) >= p.s.target() || p.m.Call.IsZero() {
		return next()
	}
	return p.after(p.m.Call, time.Duration(p.s.Job.Rules.LastCall), next)
}

func anyZero(x Exit) bool {
	return slices.ContainsFunc(x.Codes, func(c *int) bool { return c != nil && *c == 0 })
}

func anyFailed(x Exit) bool {
	return slices.ContainsFunc(x.Codes, func(c *int) bool { return c != nil && *c != 0 })
}

// registered reports whether a member is registered, and not found gone.
func registered(m *membership.Seen) bool {
	return m != nil && (m.State == membership.Alive || m.State == membership.Suspect)
}

// failure is a worker that ended with an error. While one of the nodes is in doubt it may be the
// loss of that node that made it fail: the verdict is waited for, not long.
func (p *planner) failure(f *Failure) Step {
	lost := p.lost()
	wait := p.t.Nearby
	if p.doubts() {
		wait = p.t.Verdict
	}
	if len(lost) == 0 && p.w.Count > 1 {
		if until := p.m.Failed.Add(wait); p.now.Before(until) {
			return Nothing{until}
		}
	}
	return p.change(WorkerFailed, f.String(), true)
}

// finishing: a worker is through. Nothing restarts until the others are through, gone, or the
// finish timeout has passed; only a stop, or a member that leaves, holds it.
func (p *planner) finishing() Step {
	if p.allZero() {
		return p.done()
	}
	through := true
	for _, m := range p.w.Members {
		x, ok := p.s.Exits[m.Node]
		seen := p.v.Find(m)
		switch {
		case ok && x.Incarnation == m.Incarnation && x.Ended():
			// Its failure is a record of its own, and may come after this one: without it nothing would be spent.
			through = through && (p.s.Failure != nil || !anyFailed(x) || !registered(seen))
		case seen == nil || seen.State == membership.Gone || seen.State == membership.Absent && seen.Ended:
		default:
			through = false
		}
	}
	again := func() Step {
		if p.s.Failure != nil {
			return p.change(WorkerFailed, p.s.Failure.String(), true)
		}
		text := p.whoWasLost(p.lost())
		if text == "" {
			text = "the finish timeout has passed"
		}
		return p.change(NodeLost, text, false)
	}
	if through {
		return again()
	}
	if limit := time.Duration(p.s.Job.Rules.FinishTimeout); limit > 0 {
		return p.after(p.m.Phase, limit, again)
	}
	return Nothing{}
}

// waiting: the survivors hold. A Hold that is through is a cause by itself as soon as a plan exists,
// whatever became of its reason.
func (p *planner) waiting() Step {
	if p.allZero() {
		return p.done()
	}
	h := p.w.Hold
	if h.Planned && !p.through() && !p.unplanned() {
		return Nothing{p.m.Phase.Add(h.Limit(p.s.Job) + p.t.Slack)}
	}
	if f := p.s.Failure; f != nil && p.w.Ledger.Closed != p.w.Generation {
		return p.change(WorkerFailed, f.String(), true) // it was told just before a member asked all to save
	}
	b, cause, text := p.books(), h.Cause, h.Text
	if b.Pardoned { // it was no failure of its own: nothing to back off from
		cause, text = NodeLost, p.whoWasLost(p.broke())
	}
	if until := p.m.Phase.Add(time.Duration(h.Backoff)); h.Why == BackingOff && !b.Pardoned && p.now.Before(until) {
		return Nothing{until}
	}
	propose := func() Step { return p.propose(cause, text, b) }
	var step Step
	if h.Why == BackingOff && len(candidates(p.s, p.v)) >= p.s.least() {
		step = propose()
	} else {
		step = p.lastCall(propose)
	}
	if _, idle := step.(Nothing); !idle {
		return step
	}
	lost := p.untold()
	if b.Pardoned {
		lost = p.broke()
	}
	if len(lost) == 0 {
		return step
	}
	return p.enter(NodeLost, p.whoWasLost(lost), b)
}

// through reports whether a planned Hold is: every member wrote that it saved and stopped, or that
// it ended, left or is gone; or the grace has passed and rank 0 moves no bytes.
func (p *planner) through() bool {
	all := true
	for _, m := range p.w.Members {
		x, ok := p.s.Exits[m.Node]
		if ok && x.Incarnation == m.Incarnation && x.Ended() {
			continue
		}
		if seen := p.v.Find(m); seen != nil && seen.State == membership.Gone {
			continue
		}
		all = false
	}
	if all {
		return true
	}
	if p.now.Sub(p.m.Phase) < p.w.Hold.Limit(p.s.Job)+p.t.Slack {
		return false
	}
	return !slices.ContainsFunc(p.s.Doing, func(d Doing) bool {
		return len(p.w.Members) > 0 && d.Node == p.w.Members[0].Node && d.What == "saving"
	})
}

// unplanned reports whether a member was lost while it had not yet written that it saved. Who left,
// or is gone after its record, is no cause: the save of the others goes on.
func (p *planner) unplanned() bool {
	for _, m := range p.w.Members {
		seen := p.v.Find(m)
		if seen == nil || seen.State != membership.Gone || seen.Reason == "left" {
			continue
		}
		if x, ok := p.s.Exits[m.Node]; !ok || x.Incarnation != m.Incarnation || !x.Ended() {
			return true
		}
	}
	return false
}
