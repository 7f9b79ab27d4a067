package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// Explain returns the state of the job of s, and the reason. It has no evidence but the store: a
// member without a registration is in doubt until an event says that it is lost. s must be whole,
// with its events, and have a job.
func Explain(s *rendezvous.Snapshot, now time.Time) Status {
	x := newExplainer(s, now)
	st := Status{Schema: "elastic.status/1", Job: s.Job.Name, World: []rendezvous.Seat{}, Doing: []Activity{},
		Unread:   []Unread{},
		Restarts: Restarts{Max: s.Job.Rules.MaxRestarts}}
	if s.World != nil {
		st.Generation, st.WorldSize, st.World, st.Plan = s.World.Generation, s.World.Size(), s.World.Layout(),
			s.World.Plan
	}
	st.Wish = x.wish()
	e := x.explain()
	st.State, st.WhyCode, st.Why, st.Since = e.state, e.code, e.text, Timestamp{e.since}
	if x.w != nil {
		st.Restarts.Used = x.w.Ledger.Used
		if x.w.Phase.Ended() {
			st.Exit = x.w.Outcome
		}
	}
	st.Failure = LastFailure(s)
	st.Nodes = x.nodes(st.State)
	st.Checkpoint, st.Untaken = x.checkpoint(), x.untaken()
	st.Waterfall = x.waterfall()
	if st.Progress = x.progress(); st.Progress != nil && st.Progress.Stale && st.State == StateRunning {
		st.Why += "; " + st.Progress.stale()
	} else if st.Progress != nil && st.Progress.Slow != nil && st.State == StateRunning {
		st.Why += "; " + st.Progress.Slow.String()
	}
	st.Abandoned = x.abandoned()
	if o := s.Job.Origin; o.Owner != "" {
		st.Origin = &Origin{o, Timestamp{s.Job.Time}}
	}
	for _, d := range s.Doing {
		st.Doing = append(st.Doing, Activity{d.Node, d.Kind, d.Done, d.Total, d.Text, Timestamp{d.Time}})
	}
	for _, u := range s.Unread {
		st.Unread = append(st.Unread, Unread{u.Key, u.Err.Error()})
	}
	if next := st.next(s.Job.Limits); next != "" {
		st.Next = &next
	}
	return st
}

// Ended reports whether the attempt has ended.
func (st Status) Ended() bool { return rendezvous.Phase(st.State).Ended() }

// Waiting says how many nodes are missing; "" if none is.
func (st Status) Waiting() string {
	m := st.Wish.Missing
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("waiting for %s (%d of %d)", phrase.Count(m, "more node"), st.Wish.Present, st.Wish.NP)
}

// next says what the user can do now.
func (st Status) next(limits rendezvous.Limits) string {
	again := "the same `elastic run` line starts a new attempt, from scratch"
	if st.Checkpoint != nil {
		again = fmt.Sprintf("the same `elastic run` line starts a new attempt, from checkpoint %d",
			st.Checkpoint.Number)
	}
	switch {
	case st.Abandoned && st.State != StateStopping:
		return fmt.Sprintf("no node is left: `elastic run` goes on with it, elastic stop %s ends it", st.Job)
	case st.Progress != nil && st.Progress.Stale && st.State == StateRunning && len(st.World) > 0:
		return st.nextOfStall()
	case st.State == "failed" && st.Exit != nil && st.Exit.Node != nil && st.Exit.LocalRank != nil:
		return fmt.Sprintf("elastic logs %s --first-failure on %s shows workerlog.%d; %s",
			st.Job, *st.Exit.Node, *st.Exit.LocalRank, again)
	case st.State == "failed", st.State == "stopped":
		return again
	case st.State == "done":
		return st.nextOfDone()
	case st.State == StateStopping && st.Wish.Present == 0:
		return fmt.Sprintf("no node is left to end it: elastic stop %s", st.Job)
	case st.WhyCode == rendezvous.PlanImpossible:
		return fmt.Sprintf("elastic scale %s --np=N, with an N that the batch fits", st.Job)
	case st.WhyCode == rendezvous.CheckpointMissing:
		return fmt.Sprintf("`elastic run` on a node with a checkpoint. To begin without: elastic rm %s, then "+
			"start the nodes with --again", st.Job)
	case st.State != StateWaiting || st.WhyCode != rendezvous.NodesMissing || st.Wish.Missing == 0:
		return ""
	case st.quarantined() != "":
		return fmt.Sprintf("%s is in quarantine: start it again with a program that runs, or: elastic "+
			"admit %s --job-id=%s", st.quarantined(), st.quarantined(), st.Job)
	case limits.Exact && st.Wish.Present > 0:
		return fmt.Sprintf("`elastic run` on %s, or: elastic scale %s --np=%d",
			phrase.Count(st.Wish.Missing, "more node"), st.Job, st.Wish.Present)
	}
	return fmt.Sprintf("`elastic run` on %s", phrase.Count(st.Wish.Missing, "more node"))
}

// nextOfDone says how to get the result, and how to clean up.
func (st Status) nextOfDone() string {
	remove := fmt.Sprintf("elastic rm %s removes the job and its files here", st.Job)
	if st.Checkpoint == nil {
		return remove
	}
	return fmt.Sprintf("elastic ckpt get %s %d DIR writes out its last checkpoint; %s", st.Job,
		st.Checkpoint.Number, remove)
}

// nextOfStall says what to look at where no step comes.
func (st Status) nextOfStall() string {
	ask := fmt.Sprintf("elastic explain %s --stacks asks all ranks what they do", st.Job)
	if s := st.Progress.Stall; s != nil && s.Known {
		return fmt.Sprintf("elastic logs %s --rank=%d has the output of that rank; %s", st.Job, s.Rank, ask)
	}
	return ask
}

// quarantined returns a node in quarantine; "" if there is none.
func (st Status) quarantined() string {
	for _, n := range st.Nodes {
		if n.State == NodeQuarantined {
			return n.Node
		}
	}
	return ""
}

// explainer derives the status of a job. Its w is nil while the newest World is of an earlier
// attempt.
type explainer struct {
	s      *rendezvous.Snapshot
	w      *rendezvous.World
	v      verdict.View
	now    time.Time
	events map[string]lastEvent // the newest event of each node
}

func newExplainer(s *rendezvous.Snapshot, now time.Time) *explainer {
	x := &explainer{s: s, v: plan.StoreView(s, now), now: now, events: lastEvents(s.Events)}
	if w := s.World; w != nil && w.Attempt == s.Job.Attempt {
		x.w = w
	}
	return x
}

// wish returns what the operator asked for, and how much of it is here.
func (x *explainer) wish() Wish {
	s := x.s
	present, np, missing := plan.Shortage(s, x.v)
	w := Wish{NP: np, Min: s.Job.Limits.Min, Max: s.Job.Limits.Max, Present: present, Missing: missing,
		Slots: s.Job.Slots, Draining: []string{}, By: s.Wish.By}
	if s.Job.Limits.Exact {
		w.Min, w.Max = np, np
	}
	for _, n := range s.Wish.Drain {
		if s.Node(n) != nil {
			w.Draining = append(w.Draining, n)
		}
	}
	return w
}

// untaken returns the newest save of the present generation that was not accepted as a checkpoint;
// nil if a commit came later.
func (x *explainer) untaken() *Untaken {
	if x.w == nil {
		return nil
	}
	for i := len(x.s.Events) - 1; i >= 0; i-- {
		e := &x.s.Events[i]
		if e.Kind == history.Committed {
			return nil
		}
		if e.Kind == history.Refused && e.Generation == x.w.Generation {
			return &Untaken{Path: history.Field[string](e, "path"), Reason: history.Field[string](e, "reason"),
				Text: e.Text, Time: Timestamp{e.Time}}
		}
	}
	return nil
}

// checkpoint returns the newest commit and its present holders; nil: there is none.
func (x *explainer) checkpoint() *Checkpoint {
	h := x.s.Head
	if h.Number == 0 {
		return nil
	}
	c := &Checkpoint{Number: h.Number, Step: h.Step, Samples: h.Samples, Generation: h.Generation,
		Time: Timestamp{h.Time}, Bytes: h.Bytes, Holders: []string{}, Replicas: x.s.Job.Rules.Replicas}
	seen := map[string]bool{}
	add := func(node string) {
		if !seen[node] && x.s.Holds(node) &&
			(x.s.Node(node) != nil || x.events[node].kind != history.NodeLost) {
			c.Holders = append(c.Holders, node)
		}
		seen[node] = true
	}
	for _, r := range h.Holders {
		add(r.Node)
	}
	for _, n := range x.s.Nodes {
		add(n.Node)
	}
	c.Copies = len(c.Holders)
	if h.Parts == nil {
		return c
	}
	var all []string
	for _, node := range c.Holders {
		if x.s.HoldsAll(node) {
			all = append(all, node)
		}
	}
	c.Copies = h.CopiesAt(all, func(node string) bool { return slices.Contains(c.Holders, node) })
	if c.Copies > len(all) {
		c.Parts = len(h.Parts)
	}
	return c
}
