package machine

import (
	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Workers that said that they can stay are told to leave their generation instead of being ended.
// They wait in their processes, with the state of training in memory, until they are handed the
// World of the next one.

// stays reports whether the workers of g are to leave their generation and wait for the next one.
// They are ended instead where this node goes or has no part in the newest world, where the job
// stops or another member leaves and all are asked to save, where the next world begins from an
// older checkpoint, and where they take longer than PauseLimit.
func (m *Machine) stays(g *workerGroup) bool {
	w := m.seen.world
	if _, member := m.member(); !member || !g.canStay || m.leave != nil || g.halt > action.HaltPaused ||
		w.Phase.Ended() || w.Rollback > g.world.Generation || m.pauseIsOver(g) {
		return false
	}
	if w.Generation > g.world.Generation {
		return true
	}
	return w.Phase == rendezvous.Waiting && (!w.Hold.Planned || keepsState(w.Hold))
}

// keepsState reports whether members that hold the state of training remain after a planned Hold.
// Where the job stops, or nodes leave, it may be that none remains, and all save.
func keepsState(h *rendezvous.Hold) bool { return h.Reason == "scale" || h.Reason == "join" }

// pauseIsOver reports whether the workers of g had as long as they may take to leave their
// generation.
func (m *Machine) pauseIsOver(g *workerGroup) bool {
	if g.halt != action.HaltPaused || g.paused {
		return false
	}
	at := g.haltedAt.Add(action.PauseLimit)
	if m.now.Before(at) {
		m.out.Wake(at)
		return false
	}
	return true
}

// waiting reports whether workers of an older generation wait here for the World of the next one.
func (m *Machine) waiting() bool {
	g := m.local.group
	return g != nil && g.paused && g.closed && g.canStay && g.world.Generation < m.generation()
}

func (m *Machine) applyPaused(e event.Paused) {
	g := m.local.group
	if g == nil || g.world.Generation != e.Generation || g.halt != action.HaltPaused {
		return
	}
	if e.Err != nil {
		g.canStay = false
		return
	}
	g.paused, g.inMemory = true, e.InMemory
	m.noteIdle(g)
}

// noteIdle notes that no worker of g trains any more.
func (m *Machine) noteIdle(g *workerGroup) {
	m.local.idleSince, m.local.idleAt, m.local.stopMS, m.local.stopped = m.now, m.now, 0, g.world.Generation
	if !g.haltedAt.IsZero() {
		m.local.stopMS, m.local.idleSince = m.now.Sub(g.haltedAt).Milliseconds(), g.haltedAt
	}
}
