package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// explanation is the state of a job, and the reason.
type explanation struct {
	state State
	code  rendezvous.Why
	text  string
	since time.Time
}

// explain returns the state of the job, and the reason.
func (x *explainer) explain() explanation {
	s, w := x.s, x.w
	switch {
	case w != nil && w.Phase.Ended():
		return x.ended()
	case s.Wish.Stop == s.Job.Attempt:
		return x.stopping()
	case w == nil:
		v := x.waiting(nil)
		v.since = s.Job.Time
		return v
	}
	switch w.Phase {
	case rendezvous.Waiting:
		v := x.waiting(w.Hold)
		v.since = w.Time
		return v
	case rendezvous.Forming:
		return x.starting()
	case rendezvous.Finishing:
		return x.finishing()
	}
	return x.running()
}

func (x *explainer) ended() explanation {
	v := explanation{state: State(x.w.Phase), code: rendezvous.Why(x.w.Phase), since: x.w.Time}
	o := x.w.Outcome
	if o == nil {
		return v
	}
	v.text = o.Message
	if x.w.Phase == rendezvous.Failed && o.Why != "" {
		v.code = o.Why
	}
	if o.Source == "worker" && o.Node != nil && o.Rank != nil {
		v.text = fmt.Sprintf("%s; the cause: rank %d on %s, %s", o.Message, *o.Rank, *o.Node, o.HowEnded())
	}
	return v
}

func (x *explainer) stopping() explanation {
	v := explanation{state: StateStopping, code: rendezvous.Draining, text: "the job was asked to stop",
		since: x.s.Wish.Time}
	switch {
	case len(x.s.Nodes) == 0:
		v.text += "; no node is registered"
	case x.w != nil && x.w.Phase == rendezvous.Waiting && x.w.Hold.Planned &&
		!plan.AllSaved(x.s, x.v, x.now.Sub(x.w.Time), plan.DefaultTimeouts.Slack):
		v.code = rendezvous.Saving
		v.text += "; waiting for " + phrase.List(x.unsaved()) + " to save"
	}
	return v
}

// waiting says why no World runs. h is nil before the first World of an attempt.
func (x *explainer) waiting(h *rendezvous.Hold) explanation {
	v := explanation{state: StateWaiting}
	present, wished, missing := plan.Shortage(x.s, x.v)
	_, batch := plan.Batch(x.s, max(1, plan.Size(x.s, x.v)))
	switch {
	case h != nil && h.Reason == "stop":
		v.state, v.code, v.text = StateStopping, h.Why, h.Text
	case h != nil && h.Planned && !plan.AllSaved(x.s, x.v, x.now.Sub(x.w.Time), plan.DefaultTimeouts.Slack):
		v.code, v.text = rendezvous.Saving, fmt.Sprintf("saving (%s); waiting for %s",
			h.Text, phrase.List(x.unsaved()))
	case h != nil && h.Why == rendezvous.BackingOff && x.now.Before(x.w.Time.Add(time.Duration(h.Backoff))):
		v.code, v.text = rendezvous.BackingOff, h.Text
	case missing > 0 && h != nil && h.Reason == "scale":
		// the wish may be newer than the World
		v.code, v.text = rendezvous.NodesMissing, "waiting for "+phrase.Count(missing, "more node")+": "+
			plan.WishText(x.s)
	case missing > 0 && h != nil && h.Text != "":
		v.code, v.text = rendezvous.NodesMissing, "waiting for "+phrase.Count(missing, "more node")+": "+h.Text
	case missing > 0:
		v.code, v.text = rendezvous.NodesMissing,
			fmt.Sprintf("waiting for %s (%d of %d)", phrase.Count(missing, "more node"), present, wished)
		for _, k := range plan.Quarantined(x.s) {
			v.text += fmt.Sprintf("; %s is in quarantine", k.Node)
		}
	case x.s.LacksBrought():
		v.code = rendezvous.CheckpointMissing
		v.text = "waiting for a node with a checkpoint: the job is to go on from one"
	case batch != nil:
		v.code, v.text = rendezvous.PlanImpossible, batch.Error()
	case present < wished:
		v.code, v.text = rendezvous.LastCall,
			fmt.Sprintf("%d of %d nodes are here; waiting a moment for others", present, wished)
	default:
		v.code, v.text = rendezvous.WhyBarrier,
			"enough nodes are here; the next generation is about to be proposed"
	}
	return v
}

// unsaved returns the members that have not yet written that they saved and stopped.
func (x *explainer) unsaved() []string {
	var names []string
	for _, m := range x.w.Members {
		if e, ok := x.s.Exits[m.Node]; ok && e.Incarnation == m.Incarnation && e.Ended() {
			continue
		}
		if seen := x.v.Find(m); seen == nil || seen.State != verdict.Gone {
			names = append(names, m.Node)
		}
	}
	return names
}

func (x *explainer) starting() explanation {
	missing := plan.Unready(x.s)
	v := explanation{state: StateStarting, code: rendezvous.WhyBarrier, since: x.w.Time}
	v.text = fmt.Sprintf("generation %d starts", x.w.Generation)
	if len(missing) > 0 {
		v.text = fmt.Sprintf("generation %d starts when %s ready", x.w.Generation, areReady(missing))
	}
	late := rendezvous.SetOf(missing)
	for _, d := range x.s.Doing {
		if d.Kind == "fetching" && late[d.Node] {
			v.code = rendezvous.WhyFetching
			v.text += fmt.Sprintf("; %s fetches a checkpoint (%s)", d.Node, share(d))
		}
		if d.Kind == "blocked" && late[d.Node] {
			v.text += fmt.Sprintf("; %s is not: %s", d.Node, d.Text)
		}
		if d.Kind == "checking" && late[d.Node] {
			v.text += fmt.Sprintf("; %s runs its pre-hook (%d of at most %d seconds)", d.Node, d.Done, d.Total)
		}
	}
	if x.unreadable(late) {
		v.text += x.bringBack()
	}
	return v
}

// bringBack names the nodes that may have the head, which a late node cannot get, or else those that may
// have an older checkpoint.
func (x *explainer) bringBack() string {
	head, older := &x.s.Head, plan.Awaited(x.s)
	switch away := x.away(head); {
	case len(away) > 0 && head.Parts != nil:
		return fmt.Sprintf("; parts of checkpoint %d are only on nodes that are away: bring back %s",
			head.Number, phrase.List(away))
	case len(away) == len(head.Holders) && len(away) > 0:
		return fmt.Sprintf("; checkpoint %d is only on %s: bring back one that has it", head.Number,
			phrase.List(away))
	case len(away) > 0:
		return fmt.Sprintf("; no node here can read checkpoint %d, and %s may have it: bring back one that has it",
			head.Number, phrase.List(away))
	case older != nil:
		return fmt.Sprintf("; no holder can read checkpoint %d, and %s may have checkpoint %d: bring it back",
			head.Number, phrase.List(x.away(older)), older.Number)
	}
	return ""
}

// unreadable reports whether one of the late nodes cannot get the head.
func (x *explainer) unreadable(late map[string]bool) bool {
	return slices.ContainsFunc(x.s.Doing, func(d rendezvous.Activity) bool {
		return d.Kind == "unreadable" && late[d.Node] && d.Done == int64(x.s.Head.Number)
	})
}

// away returns the nodes that held a checkpoint at its commit and are not registered.
func (x *explainer) away(h *checkpoint.Head) (names []string) {
	for _, r := range h.Holders {
		if x.s.Node(r.Node) == nil {
			names = append(names, r.Node)
		}
	}
	return names
}

func areReady(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return phrase.List(names) + " are"
}

// share says how many bytes have been moved.
func share(d rendezvous.Activity) string {
	if d.Total == 0 {
		return fmt.Sprintf("%d bytes", d.Done)
	}
	return fmt.Sprintf("%d%% of %d bytes", 100*d.Done/d.Total, d.Total)
}

func (x *explainer) finishing() explanation {
	through := 0
	for _, m := range x.w.Members {
		e := x.s.Exits[m.Node]
		for _, c := range e.Codes {
			if c != nil && e.Incarnation == m.Incarnation {
				through++
			}
		}
	}
	return explanation{state: StateFinishing, code: rendezvous.WhyFinishing, since: x.w.Time,
		text: fmt.Sprintf("%d of %d workers have ended", through, x.w.Size())}
}

// running explains a World that runs. If a cause for another World is recorded, the state is
// waiting, because its workers are about to stop.
func (x *explainer) running() explanation {
	s, w := x.s, x.w
	v := explanation{state: StateWaiting, since: s.Wish.Time}
	gone, registered := x.gone()
	_, _, missing := plan.Shortage(s, x.v)
	switch {
	case s.Failure != nil:
		v.code, v.text, v.since = rendezvous.BackingOff, s.Failure.String()+"; the others stop",
			s.Failure.Time
	case len(gone) > 0:
		v.code, v.text, v.since = rendezvous.NodesMissing, x.goneText(gone), x.events[gone[0].Node].at
		if missing > 0 {
			v.text = "waiting for " + phrase.Count(missing, "more node") + ": " + v.text
		}
	case registered == 0:
		v.code, v.since = rendezvous.NodesMissing, w.Time
		v.text = fmt.Sprintf("waiting for %s: no node of generation %d is registered (lease expired)",
			phrase.Count(max(1, missing), "more node"), w.Generation)
	case plan.WishPending(s, x.v) && s.Wish.By == "drain":
		v.code, v.text = rendezvous.Draining, "asked to go: "+phrase.List(s.Wish.Drain)
	case plan.WishPending(s, x.v):
		v.code, v.text = rendezvous.Saving, plan.WishText(x.s)
	case plan.Drained(x.s):
		v.code, v.text = rendezvous.Draining, "asked to go: "+phrase.List(s.Wish.Drain)
	default:
		v = explanation{state: StateRunning, code: rendezvous.WhyRunning, since: w.Time,
			text: fmt.Sprintf("generation %d runs: world size %d", w.Generation, w.Size())}
		if present, wished, _ := plan.Shortage(s, x.v); plan.Grows(s, x.v) && present < wished {
			v.text += fmt.Sprintf("; %d of %d nodes are here, waiting a moment for others before it grows",
				present, wished)
		}
		if doubt := x.doubt(); len(doubt) > 0 {
			v.text += "; in doubt: " + phrase.List(doubt)
		}
	}
	if v.since.IsZero() {
		v.since = w.Time
	}
	return v
}

// gone returns the members that are certainly gone: they left, were replaced, or an event says that
// they were lost. registered is the number of registered members.
func (x *explainer) gone() (gone []verdict.Member, registered int) {
	for _, m := range x.v.Members[:len(x.w.Members)] {
		if m.Registered {
			registered++
		}
		if m.State == verdict.Gone || m.State == verdict.Absent && x.lostBy(m.Node) {
			gone = append(gone, m)
		}
	}
	return gone, registered
}

// goneText says which members are gone, with the reasons that the events give.
func (x *explainer) goneText(gone []verdict.Member) string {
	for i, m := range gone {
		if w := x.events[m.Node]; w.kind == history.NodeLost && w.why != "" && !m.Removed {
			gone[i].Why = w.why
		}
	}
	return plan.LossText(gone)
}

// doubt returns the members that are in doubt, with the reason.
func (x *explainer) doubt() []string {
	var names []string
	for _, m := range x.v.Members[:len(x.w.Members)] {
		if m.State == verdict.Suspect || m.State == verdict.Absent {
			names = append(names, m.Node+" ("+m.Why+")")
		}
	}
	return names
}
