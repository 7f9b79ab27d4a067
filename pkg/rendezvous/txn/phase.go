package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Hold writes a Hold. It keeps the fence, so captures may still be committed.
func (r Requests) Hold(
	ctx context.Context, seen *rendezvous.Snapshot, me membership.Node, e plan.Hold,
) (rendezvous.World, error) {
	w := *seen.World
	w.Phase, w.Hold, w.Ledger = rendezvous.Waiting, &e.Hold, e.Ledger
	if e.Quarantine != nil {
		w.Quarantine = e.Quarantine
	}
	guards := []store.Guard{store.Unchanged(r.Job.Node(me.Node), me.Rev)}
	var writes []store.Write
	if e.Hold.Unsaved != "" { // the request to stop is taken back
		wish := seen.Wish
		wish.Stop, wish.RequireSave = 0, false
		guards = append(guards, store.Unchanged(r.Job.Wish(), wish.Rev))
		writes = append(writes, store.Put(r.Job.Wish(), schema.Encode(wish)))
	}
	for _, x := range e.Lost {
		guards = append(guards, r.isLost(x, me)...)
		w.ReportedLost = append(w.ReportedLost, x.Incarnation)
	}
	events := lostEvents(w.Generation, me.Node, e.Lost)
	if e.Failure != nil {
		events = append(events, failureEvent(w.Generation, e.Failure))
	}
	events = append(events, quarantineEvents(seen, e.Ledger)...)
	if e.Hold.Why == rendezvous.BackingOff {
		events = append(events,
			history.Event{Kind: history.Backoff, Generation: w.Generation, Text: e.Hold.Text,
				Fields: history.Fields{"seconds": time.Duration(e.Hold.Backoff).Seconds(),
					"restarts_used": e.Ledger.Used, "restarts_max": seen.Job.Rules.MaxRestarts}})
	}
	events = append(events,
		history.Event{Kind: history.WaitEntered, Generation: w.Generation, Text: e.Hold.Text,
			Fields: history.Fields{"why_code": e.Hold.Why, "present": e.Hold.Present, "np": seen.Wish.NP}})
	if e.Hold.Planned {
		events = append(events, history.Event{Kind: history.SaveAsked, Generation: w.Generation,
			Text:   "the workers are asked to save (" + e.Hold.Reason + ")",
			Fields: history.Fields{"reason": e.Hold.Reason, "grace_seconds": e.Hold.Limit(seen.Job).Seconds()}})
	}
	return r.writePhase(ctx, seen, w,
		store.Request{If: guards, Then: append(writes, history.Tell(r.Job, events...))})
}

// Starting is the start of a generation, with the time that it took.
type Starting struct {
	Step   plan.Run
	Idle   time.Duration // time without training; 0: not known
	Timing rendezvous.Timing
}

// Run starts a generation whose barrier is full.
func (r Requests) Run(ctx context.Context, seen *rendezvous.Snapshot, x Starting) (rendezvous.World, error) {
	w := *seen.World
	w.Phase, w.Master = rendezvous.Running, &x.Step.Master
	w.CountStart(x.Idle)
	ev := history.Event{Kind: history.WorldRunning, Generation: w.Generation,
		Text: fmt.Sprintf("generation %d running: world size %d", w.Generation, w.Size()),
		Fields: history.Fields{"world_size": w.Size(), "idle_ms": nil, "barrier_ms": x.Timing.Forming(),
			"stopped_ms": slowestStop(seen), "waterfall": x.Timing}}
	if x.Idle > 0 {
		ev.Fields["idle_ms"] = x.Idle.Milliseconds()
	}
	return r.writePhase(ctx, seen, w,
		store.Request{Then: append(r.putEndpoints(seen), history.Tell(r.Job, ev))})
}

func slowestStop(s *rendezvous.Snapshot) int64 {
	var ms int64
	for _, r := range s.Ready {
		ms = max(ms, r.StopMS)
	}
	return ms
}

// PublishTiming writes the timing of a start, once workers run on the node that turned w to
// running.
func (r Requests) PublishTiming(ctx context.Context, w *rendezvous.World, f rendezvous.Timing) error {
	_, err := r.send(ctx, "tell of the start", store.Request{
		If: []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation)},
		Then: []store.Write{history.Tell(r.Job, history.Event{Kind: history.Started, Generation: w.Generation,
			Node: f.By,
			Text: "the workers of " + f.By + " started", Fields: history.Fields{"waterfall": f}})},
	})
	return err
}

// Finish records that a worker has finished. From then on no generation starts until the others
// have finished.
func (r Requests) Finish(
	ctx context.Context, seen *rendezvous.Snapshot, step plan.Finish,
) (rendezvous.World, error) {
	w := *seen.World
	w.Phase = rendezvous.Finishing
	rank, left := 0, 0
	for i, m := range w.Members {
		x := seen.Exits[m.Node]
		for k := range w.Workers(i) {
			if x.Incarnation == m.Incarnation && k < len(x.Codes) && x.Codes[k] != nil {
				if m.Node == step.Node {
					rank = w.WorkerRank(i, k)
				}
				continue
			}
			left++
		}
	}
	finished := history.Event{Kind: history.JobFinishing, Generation: w.Generation, Node: step.Node,
		Text:   fmt.Sprintf("rank %d has finished, %s still running", rank, phrase.Count(left, "worker")),
		Fields: history.Fields{"rank": rank, "left": left}}
	return r.writePhase(ctx, seen, w, store.Request{Then: []store.Write{history.Tell(r.Job, finished)}})
}

// End closes the attempt.
func (r Requests) End(ctx context.Context, seen *rendezvous.Snapshot, e plan.End) (rendezvous.World, error) {
	w := rendezvous.World{UID: seen.Job.UID}
	if seen.World != nil {
		w = *seen.World
	}
	w.Attempt, w.Phase, w.Hold, w.Outcome, w.Ledger = seen.Job.Attempt, e.Phase, nil, &e.Outcome, e.Ledger
	w.Unsaved = e.Unsaved
	var guards []store.Guard
	if e.Phase == rendezvous.Stopped && seen.World != nil {
		guards = append(guards, store.NoneNewer(r.Job.Exits(w.Generation), seen.Rev))
	}
	events := lostEvents(w.Generation, e.By, e.Lost)
	if e.Failure != nil {
		events = append(events, failureEvent(w.Generation, e.Failure))
	}
	kind := map[rendezvous.Phase]history.Kind{rendezvous.Done: history.JobDone,
		rendezvous.Failed: history.JobFailed, rendezvous.Stopped: history.JobStopped}[e.Phase]
	events = append(events, history.Event{Kind: kind, Generation: w.Generation,
		Text:   fmt.Sprintf("job %s: %s", e.Phase, e.Outcome.Message),
		Fields: withProgress(seen, history.Fields{"exit": e.Outcome, "unsaved": e.Unsaved})})
	return r.writePhase(ctx, seen, w,
		store.Request{If: guards, Then: []store.Write{history.Tell(r.Job, events...)}})
}
