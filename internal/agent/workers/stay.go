package workers

import (
	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Workers that reported that they can stay are not ended with their generation. They are asked to
// leave it. They then wait in their processes, with the state of training in memory, for the next
// World.

// stays reports whether the workers of g leave their generation and wait for the next World. They
// are ended instead if this node leaves or is not in the newest World, if the job stops, if another
// member leaves so that all must save, if the next World begins from an older checkpoint, or if
// they take longer than PauseLimit.
func (g *Group) stays(f *Facts, out *message.Outbox) bool {
	w := f.World
	if !f.member() || !g.canStay || f.Leaving != nil || g.Halt > message.HaltPaused ||
		w.Phase.Ended() || w.Rollback > g.World.Generation || g.pauseIsOver(f, out) {
		return false
	}
	if w.Generation > g.World.Generation {
		return f.Job.Roles == nil || f.Job.KeepsServers(&g.World, w)
	}
	if w.Phase != rendezvous.Waiting {
		return false
	}
	if !w.Hold.Planned {
		return f.Job.Roles == nil // a server may be lost, and its tables are only in the checkpoint
	}
	return keepsState(w.Hold)
}

// keepsState reports whether members that hold the state of training remain after a planned Hold.
// If the job stops, or nodes leave, none may remain, and all save.
func keepsState(h *rendezvous.Hold) bool { return h.Reason == "scale" || h.Reason == "join" }

// pauseIsOver reports whether the workers of g have not left their generation within PauseLimit.
func (g *Group) pauseIsOver(f *Facts, out *message.Outbox) bool {
	if g.Halt != message.HaltPaused || g.Paused {
		return false
	}
	at := g.haltedAt.Add(message.PauseLimit)
	if f.Now.Before(at) {
		out.Wake(at)
		return false
	}
	return true
}

// waiting reports whether workers of an older generation wait here for the next World.
func (w *Workers) waiting(f *Facts) bool {
	g := w.Group
	return g != nil && g.Paused && g.closed && g.canStay && g.World.Generation < f.generation()
}

// holdsState reports whether each worker that waits here has a state that is as new as the
// checkpoint of the World. A worker has an older state if it was interrupted in its last step, and
// another rank, which is lost, had finished and saved that step.
func (w *Workers) holdsState(f *Facts) bool {
	if !w.waiting(f) || w.Group.held == nil {
		return false
	}
	from := f.World.Resume
	return from == nil || from.Step == nil || *w.Group.held >= *from.Step
}

// applyPaused records that workers wait for the next World, or could not leave their generation.
func (w *Workers) applyPaused(e message.Paused, f *Facts) {
	g := w.groupOf(e.Generation)
	if g == nil || g.Halt != message.HaltPaused {
		return
	}
	if e.Err != nil {
		g.canStay, g.unfit = false, true
		return
	}
	g.Paused, g.held = true, e.Held
	if g.First {
		g.canStay = true // workers that wait can stay
		return
	}
	w.noteIdle(f)
}

// noteIdle records since when no worker of the group trains.
func (w *Workers) noteIdle(f *Facts) {
	g := w.Group
	w.idleSince, w.idleAt, w.stopMS, w.stopped = f.Now, f.Now, 0, g.World.Generation
	if !g.haltedAt.IsZero() {
		w.stopMS, w.idleSince = f.Now.Sub(g.haltedAt).Milliseconds(), g.haltedAt
	}
}
