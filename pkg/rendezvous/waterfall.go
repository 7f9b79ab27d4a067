package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Waterfall is where the time of one start of a World went: milliseconds from the first sign that there
// had to be another World. All of it was seen by one agent, By, on its own monotonic clock: moments of
// two hosts are never compared. It is for people; nothing is decided by it. null: it did not happen, or not before By's eyes.
type Waterfall struct {
	By       string `json:"by"`
	Sign     string `json:"sign"`
	Decided  *int64 `json:"decided_ms"`  // the plan first said that the old World has to end, or that there can be one
	Enough   *int64 `json:"enough_ms"`   // there were too few nodes in between: the last that was needed is here
	Proposed *int64 `json:"proposed_ms"` // the World was seen written
	Stopped  *int64 `json:"stopped_ms"`  // nothing of older workers is left on any node
	Barrier  *int64 `json:"barrier_ms"`  // all are Ready
	Last     string `json:"last"`        // the node whose Ready came last
	Started  *int64 `json:"started_ms"`  // By's own workers run
}

// What a first sign can be, beside membership.Sign. A worker that failed and an agent's own suspicion are seen
// before they are written.
const (
	SignFailure = "worker-failed"
	SignLeft    = "left"
	SignWish    = "wish"
	SignNodes   = "nodes"  // enough for a World, or more than it has
	SignUnseen  = "unseen" // By came, or began to plan, after it
)

// Fall follows the change of the World that is under way, as one agent sees it. Its owner is that agent.
type Fall struct {
	generation schema.Generation
	ready      int64 // revision of the newest Ready that was seen
	short      bool  // too few nodes were here when it was last looked

	what, last                                        string
	sign, decided, enough, proposed, stopped, barrier time.Time
}

// Observe notes what s and the step that is planned on it show for the first time. own is a sign that
// this agent saw and the store does not show yet, or "".
func (f *Fall) Observe(s *Snapshot, v membership.View, own string, step Step, now time.Time) {
	var g schema.Generation
	if s.World != nil {
		g = s.World.Generation
	}
	if g != f.generation {
		f.generation, f.ready, f.proposed = g, 0, now
		f.last, f.stopped, f.barrier = "", time.Time{}, time.Time{}
	}
	if s.Job == nil {
		return
	}
	enough := len(candidates(s, v)) >= s.least()
	switch w := s.World; {
	case w == nil || w.Attempt != s.Job.Attempt:
		if !enough {
			*f = Fall{generation: g}
			return
		}
		f.begin(SignNodes, now)
	case w.Phase == Running:
		what := clue(s, v, own)
		if what == "" {
			*f = Fall{generation: g}
			return
		}
		f.begin(what, now)
	case w.Phase == Waiting:
		f.begin(SignUnseen, now)
		if f.short && enough {
			f.enough = now
		}
		f.short = !enough
	case w.Phase == Forming:
		f.begin(SignUnseen, now)
		f.barriers(s, now)
	default:
		*f = Fall{generation: g}
		return
	}
	switch step.(type) {
	case Propose, Enter:
		note(&f.decided, now)
	case Run:
		note(&f.barrier, now)
	}
}

func (f *Fall) begin(what string, now time.Time) {
	if f.sign.IsZero() {
		f.what, f.sign = what, now
	}
}

func note(t *time.Time, now time.Time) {
	if t.IsZero() {
		*t = now
	}
}

// barriers notes who became Ready. How long ago its workers were gone is said by the node itself, so what is
// subtracted here is a duration of its clock, and the way of its Ready through the store counts as stopping.
func (f *Fall) barriers(s *Snapshot, now time.Time) {
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
		if at := now.Add(-time.Duration(*r.AfterMS) * time.Millisecond); at.After(f.stopped) {
			f.stopped = at
		}
	}
	f.ready = newest
}

// clue is what says that a running World has to end; "" while nothing does.
func clue(s *Snapshot, v membership.View, own string) string {
	switch {
	case own != "":
		return own
	case s.Failure != nil:
		return SignFailure
	}
	for _, m := range v.Members {
		if m.State == membership.Alive {
			continue
		}
		for _, x := range s.Suspects {
			if x.Incarnation == m.Incarnation {
				return string(x.Sign)
			}
		}
		if m.Reason == "left" {
			return SignLeft
		}
		return string(membership.LeaseExpired)
	}
	p := planner{s: s, w: s.World, v: v}
	switch {
	case s.Wish.Request != s.World.Request, s.Wish.Stop == s.Job.Attempt, p.drained():
		return SignWish
	case p.present() > s.World.Count && s.World.Count < s.target():
		return SignNodes
	}
	return ""
}

// Waterfall is what was seen, up to the barrier.
func (f *Fall) Waterfall(by string) Waterfall {
	return Waterfall{By: by, Sign: f.what, Last: f.last, Decided: f.since(f.decided), Enough: f.since(f.enough),
		Proposed: f.since(f.proposed), Stopped: f.since(f.stopped), Barrier: f.since(f.barrier)}
}

// Sign is when it began.
func (f *Fall) Sign() time.Time { return f.sign }

func (f *Fall) since(t time.Time) *int64 {
	if t.IsZero() || f.sign.IsZero() {
		return nil
	}
	return new(max(0, t.Sub(f.sign).Milliseconds()))
}

// forming is from Propose to the full barrier.
func (f Waterfall) forming() (ms int64) {
	if f.Proposed != nil && f.Barrier != nil {
		ms = *f.Barrier - *f.Proposed
	}
	return ms
}

// String is the sentence of the event and of `elastic status`.
func (f Waterfall) String() string {
	var parts []string
	add := func(what string, ms *int64) {
		if ms != nil {
			parts = append(parts, fmt.Sprintf("%s %.3f", what, float64(*ms)/1000))
		}
	}
	add("decided", f.Decided)
	add("enough nodes", f.Enough)
	add("proposed", f.Proposed)
	add("workers stopped", f.Stopped)
	add("barrier full", f.Barrier)
	if f.Last != "" {
		parts = append(parts, "last "+f.Last)
	}
	add("started", f.Started)
	return fmt.Sprintf("seconds since the first sign (%s), on %s: %s", f.Sign, f.By, strings.Join(parts, ", "))
}

// Started tells where the time went, once the workers of w run on the node that turned it running.
func (r Requests) Started(ctx context.Context, w *World, f Waterfall) error {
	_, err := r.send(ctx, "tell of the start", store.Request{
		If: []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation)},
		Then: []store.Write{history.Tell(r.Job, history.Event{Kind: history.Started, Generation: w.Generation, Node: f.By,
			Text: f.String(), Fields: history.Fields{"waterfall": f}})},
	})
	return err
}

// waterfall is that of the newest World, as the events tell it; nil until it runs.
func (x *explainer) waterfall() *Waterfall {
	if x.s.World == nil {
		return nil
	}
	for i := len(x.s.Events) - 1; i >= 0; i-- {
		e := x.s.Events[i]
		if e.Generation != x.s.World.Generation || e.Kind != history.Started && e.Kind != history.WorldRunning {
			continue
		}
		raw, err := json.Marshal(e.Fields["waterfall"])
		var f *Waterfall
		if err == nil && json.Unmarshal(raw, &f) == nil && f != nil {
			return f
		}
	}
	return nil
}
