package workers

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// order is how far the workers must be driven to their end, and how long they may take.
type order struct {
	halt   message.Halt
	reason string
	grace  time.Duration
}

// endNow is the order for workers whose state is not saved any more.
func endNow() order { return order{halt: message.HaltEnded, grace: message.ShortGrace} }

// order returns how far the workers of g must be driven to their end now.
func (g *Group) order(f *Facts, out *message.Outbox) order {
	w := f.World
	switch {
	case f.Over || f.hurried():
		return order{halt: message.HaltKilled}
	case !f.Joined:
		return endNow() // this incarnation is over: nothing of them counts
	case g.First:
		return g.firstOrder(f, out)
	case f.Overtaken > g.World.Generation:
		return endNow() // a peer announced a newer generation, which the store cannot be asked about
	case w == nil || w.Generation < g.World.Generation:
		return order{}
	case g.stays(f, out):
		return order{halt: message.HaltPaused}
	case w.Generation > g.World.Generation:
		return endNow()
	}
	switch w.Phase {
	case rendezvous.Waiting:
		if w.Hold.Planned {
			return order{message.HaltAsked, w.Hold.Reason, w.Hold.Limit(f.Job)}
		}
	case rendezvous.Running, rendezvous.Finishing:
		if f.Leaving != nil && !f.AwaySince.IsZero() { // the Hold cannot be written, but the workers can save
			return order{message.HaltAsked, "leave", time.Duration(f.Job.Rules.Grace)}
		}
		return order{}
	}
	return endNow()
}

// Drive keeps or stops the workers. It does not need the store: a node that is cut off from the
// store, and hears of a newer generation, stops its workers.
func (w *Workers) Drive(f *Facts, out *message.Outbox) {
	g := w.Group
	if g == nil {
		return
	}
	if o := g.order(f, out); o.halt > g.Halt && g.Started && !g.Dead {
		g.Halt, g.Paused = o.halt, false
		if g.haltedAt.IsZero() {
			g.haltedAt = f.Now
		}
		if o.halt == message.HaltPaused {
			out.Do(message.PauseWorkers{Generation: g.World.Generation})
		} else {
			out.Do(message.HaltWorkers{Generation: g.World.Generation, How: o.halt, Reason: o.reason,
				Grace: o.grace})
		}
	}
	if !g.closed && (g.Dead || g.Paused || g.lingers(f, out)) {
		g.closeCaptures(f, out)
	}
	if g.Dead && g.closed {
		w.floor = max(w.floor, g.World.Generation)
		if !f.Joined || f.generation() > g.World.Generation {
			w.Group = nil
		}
	}
}

// closeCaptures ends the captures of a group. What the workers left complete is saved first, unless
// they were ended early. In a World that is done none was, even if that World ended before this
// agent knew that no process of them is left.
func (g *Group) closeCaptures(f *Facts, out *message.Outbox) {
	done := f.generation() == g.World.Generation && f.World.Phase == rendezvous.Done
	complete := g.Halt <= message.HaltAsked || done
	saves := message.CloseSaves{Generation: g.World.Generation,
		Last: complete && !f.hurried() && !g.cannotCommit(f)}
	if out.RequestFor(message.KindClose, g.World.Generation, saves) {
		g.closingSince, g.lastSave = f.Now, saves.Last
	} else if g.lastSave && (g.cannotCommit(f) || g.skipsLastSave(f)) {
		g.lastSave, saves.Last = false, false
		out.Do(saves)
	}
}

// cannotCommit reports whether nothing of g can be committed any more: a newer generation was
// proposed, or this incarnation was dropped, and copies on a node that is not registered do not
// count. A last save would wait for its copies in vain, and this node neither joins nor is ready
// before it ends.
func (g *Group) cannotCommit(f *Facts) bool {
	return !f.Joined || f.generation() > g.World.Generation
}

// skipsLastSave reports whether this leaving node does not wait for the last save: it got a second
// signal, or the store, without which nothing can be saved, was away for too long.
func (g *Group) skipsLastSave(f *Facts) bool {
	if f.Leaving == nil || f.Leaving.Now {
		return f.Leaving != nil
	}
	away := !f.AwaySince.IsZero() && f.Now.Sub(f.AwaySince) >= message.Patience
	return away && f.Now.Sub(g.closingSince) > message.Patience
}

// linger is how long processes that the workers of rank 0 started may run on. After it, the last
// save is taken as it is.
const linger = 5 * time.Second

// lingers reports whether the workers of rank 0, on this node, have all ended, while a process that
// they started has not. That process may run for ever, and the job is not done before the last
// save.
func (g *Group) lingers(f *Facts, out *message.Outbox) bool {
	if g.endedAt.IsZero() || g.World.Rank(f.Self.Ref) != 0 {
		return false
	}
	at := g.endedAt.Add(linger)
	if f.Job.Roles != nil {
		at = g.endedAt // servers run on; trainers end when their saves are whole
	}
	if f.Now.Before(at) {
		out.Wake(at)
		return false
	}
	return true
}
