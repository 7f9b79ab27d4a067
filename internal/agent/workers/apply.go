package workers

import (
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Apply updates the state of the workers with an event.
func (w *Workers) Apply(e message.Event, f *Facts, out *message.Outbox) {
	switch e := e.(type) {
	case message.Started:
		out.AnsweredFor(message.KindStart, e.Generation, nil)
		w.applyStarted(e, f, out)
	case message.Hung:
		if g := w.groupOf(e.Generation); g != nil && g.Halt == message.NoHalt {
			e.Failure.Time = f.Now
			g.Failures = append(g.Failures, e.Failure)
		}
	case message.Exited:
		w.applyExit(e, f)
	case message.Staying:
		if g := w.groupOf(e.Generation); g != nil {
			g.canStay = e.Can
		}
	case message.Paused:
		w.applyPaused(e, f)
	case message.Halted:
		if g := w.groupOf(e.Generation); g != nil {
			g.Dead, g.canStay = true, false
			if !g.First {
				w.noteIdle(f)
			}
		}
	case message.Closed:
		out.AnsweredFor(message.KindClose, e.Generation, e.Err)
		if g := w.Group; g != nil && g.World.Generation <= e.Generation && e.Err == nil {
			g.closed = true
		}
	case message.ExitReported:
		out.AnsweredFor(message.KindExit, e.Generation, e.Err)
		if e.Err == nil || store.Moved(e.Err) {
			w.exit.generation, w.exit.rev = e.Generation, e.Rev
			if e.Err == nil {
				w.exit.record = &e.Exit
			}
		}
	case message.FailureReported:
		out.AnsweredFor(message.KindFailure, e.Generation, e.Err)
	}
}

// groupOf returns the group of that generation, or nil.
func (w *Workers) groupOf(generation schema.Generation) *Group {
	if g := w.Group; g != nil && g.World.Generation == generation {
		return g
	}
	return nil
}

// ApplyReady handles the outcome of the preparation of a generation.
func (w *Workers) ApplyReady(e message.Readied) {
	if e.Err == nil && e.Generation >= w.ready {
		w.ready, w.ports, w.resume, w.inMemory = e.Generation, e.Ports, e.Resume, e.InMemory
	}
	w.floor = max(w.floor, e.Generation-1) // never start a generation below one that was reported Ready
}

// applyStarted records that workers started, or could not be started.
func (w *Workers) applyStarted(e message.Started, f *Facts, out *message.Outbox) {
	g := w.groupOf(e.Generation)
	if g == nil {
		return
	}
	if e.Err == nil {
		g.Started, g.StartedAt = true, f.Now
		if g.First {
			out.Do(message.PauseWorkers{Generation: e.Generation})
		}
		return
	}
	if g.Dead = true; g.First {
		return // no World has them, so this is no failure
	}
	for i := range g.codes {
		code := e.Code
		g.codes[i] = &code
	}
	g.Failures = append(g.Failures, g.failure(message.WorkerExit{Code: e.Code, Message: e.Err.Error()}, f))
}

// applyExit records the end of a worker.
func (w *Workers) applyExit(e message.Exited, f *Facts) {
	g := w.groupOf(e.Generation)
	if g == nil || e.Process.Name == "" && e.LocalRank >= len(g.codes) {
		return
	}
	g.unfit = true
	g.canStay = false
	if e.Ours {
		return // it was asked or signalled, so its code does not count, and it did not fail
	}
	if e.Code != 0 && g.Halt == message.NoHalt {
		g.Failures = append(g.Failures, g.failure(e.WorkerExit, f))
	}
	if e.Process.Name != "" {
		return // only trainers decide when the job is done
	}
	code := e.Code
	g.codes[e.LocalRank] = &code
	if !slices.ContainsFunc(g.codes, func(code *int) bool { return code == nil || *code != 0 }) {
		g.endedAt = f.Now
	}
}

// failure returns the end of a worker here as it is reported to the others.
func (g *Group) failure(x message.WorkerExit, f *Facts) rendezvous.Failure {
	rank := 0
	if x.Process.Name == "" {
		rank = max(0, g.World.WorkerRank(g.World.Rank(f.Self.Ref), x.LocalRank))
	}
	return rendezvous.Failure{Node: f.Self.Node, Incarnation: f.Self.Incarnation, LocalRank: x.LocalRank,
		Process: x.Process, Rank: rank, Code: x.Code, Signal: x.Signal, Message: x.Message, Detail: x.Detail,
		Script: x.Script, Victim: x.Victim, Step: x.Step, NaN: x.NaN, Time: f.Now}
}
