package workers

import (
	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Workers that said that they can stay are asked to leave their generation instead of being ended.
// They wait in their processes, with the state of training in memory, until they are handed the
// World of the next one.

// stays reports whether the workers of g are to leave their generation and wait for the next one.
// They are ended instead where this node goes or has no part in the newest world, where the job
// stops or another member leaves and all are asked to save, where the next world begins from an
// older checkpoint, and where they take longer than PauseLimit.
func (g *Group) stays(f *Facts, out *outbox.Outbox) bool {
	w := f.World
	if !f.member() || !g.canStay || f.Leaving != nil || g.Halt > action.HaltPaused ||
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
		return f.Job.Roles == nil // a server may be lost: its tables are in the checkpoint alone
	}
	return keepsState(w.Hold)
}

// keepsState reports whether members that hold the state of training remain after a planned Hold.
// Where the job stops, or nodes leave, it may be that none remains, and all save.
func keepsState(h *rendezvous.Hold) bool { return h.Reason == "scale" || h.Reason == "join" }

// pauseIsOver reports whether the workers of g had as long as they may take to leave their
// generation.
func (g *Group) pauseIsOver(f *Facts, out *outbox.Outbox) bool {
	if g.Halt != action.HaltPaused || g.Paused {
		return false
	}
	at := g.haltedAt.Add(action.PauseLimit)
	if f.Now.Before(at) {
		out.Wake(at)
		return false
	}
	return true
}

// waiting reports whether workers of an older generation wait here for the World of the next one.
func (w *Workers) waiting(f *Facts) bool {
	g := w.Group
	return g != nil && g.Paused && g.closed && g.canStay && g.World.Generation < f.generation()
}

// holdsState reports whether each worker that waits here holds a state that is as new as the
// checkpoint of the world. A worker with an older state was broken off in its last step: another
// rank, which is lost, had finished and saved that step.
func (w *Workers) holdsState(f *Facts) bool {
	if !w.waiting(f) || w.Group.held == nil {
		return false
	}
	from := f.World.Resume
	return from == nil || from.Step == nil || *w.Group.held >= *from.Step
}

func (w *Workers) applyPaused(e event.Paused, f *Facts) {
	g := w.of(e.Generation)
	if g == nil || g.Halt != action.HaltPaused {
		return
	}
	if e.Err != nil {
		g.canStay, g.unfit = false, true
		return
	}
	g.Paused, g.held = true, e.Held
	if g.First {
		g.canStay = true // else they would not wait
		return
	}
	w.noteIdle(f)
}

// noteIdle notes that no worker of the group trains any more.
func (w *Workers) noteIdle(f *Facts) {
	g := w.Group
	w.idleSince, w.idleAt, w.stopMS, w.stopped = f.Now, f.Now, 0, g.World.Generation
	if !g.haltedAt.IsZero() {
		w.stopMS, w.idleSince = f.Now.Sub(g.haltedAt).Milliseconds(), g.haltedAt
	}
}
