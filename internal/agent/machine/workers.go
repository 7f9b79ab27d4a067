package machine

import (
	"errors"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// order is what the workers here must do, by what is known, and how long they may take.
type order struct {
	halt   action.Halt
	reason string
	grace  time.Duration
}

// endNow is the order to workers of which nothing is saved any more.
func endNow() order { return order{halt: action.HaltEnded, grace: action.ShortGrace} }

func (m *Machine) order() order {
	g, w := m.local.group, m.seen.world
	switch {
	case m.over != nil || m.leave != nil && m.leave.Now:
		return order{halt: action.HaltKilled}
	case !m.self.joined:
		return endNow() // another incarnation runs, or none: nothing of these counts
	case m.seen.peerGeneration > g.world.Generation && m.seen.readFailed:
		return endNow() // a newer generation is there, and the store cannot be asked whether with this node
	case w == nil || w.Generation < g.world.Generation:
		return order{}
	case m.stays(g):
		return order{halt: action.HaltPaused}
	case w.Generation > g.world.Generation:
		return endNow()
	}
	switch w.Phase {
	case rendezvous.Waiting:
		if w.Hold.Planned {
			return order{action.HaltAsked, w.Hold.Reason, w.Hold.Limit(m.self.job)}
		}
	case rendezvous.Running, rendezvous.Finishing:
		if m.leave != nil && !m.seen.awaySince.IsZero() { // the Hold cannot be written: save all the same
			return order{action.HaltAsked, "leave", time.Duration(m.self.job.Rules.Grace)}
		}
		return order{}
	}
	return endNow()
}

// drive keeps or stops the workers. Nothing here needs the store: a node that is cut off from it and
// hears of a newer generation stops all the same.
func (m *Machine) drive() {
	g := m.local.group
	if g == nil {
		return
	}
	if o := m.order(); o.halt > g.halt && g.started && !g.dead {
		g.halt, g.paused = o.halt, false
		if g.haltedAt.IsZero() {
			g.haltedAt = m.now
		}
		if o.halt == action.HaltPaused {
			m.out.Do(action.PauseWorkers{Generation: g.world.Generation})
		} else {
			m.out.Do(action.HaltWorkers{Generation: g.world.Generation, How: o.halt, Reason: o.reason, Grace: o.grace})
		}
	}
	if !g.closed && (g.dead || g.paused || m.lingers()) {
		m.closeCaptures(g)
	}
	if g.dead && g.closed {
		m.local.floor = max(m.local.floor, g.world.Generation)
		if !m.self.joined || m.generation() > g.world.Generation {
			m.local.group = nil
		}
	}
}

// closeCaptures ends the captures of a group. What was left complete still counts, unless the workers
// were cut short. In a world that is done none was, even if the end came before this agent knew that
// nothing is left of them.
func (m *Machine) closeCaptures(g *workerGroup) {
	done := m.generation() == g.world.Generation && m.seen.world.Phase == rendezvous.Done
	complete := g.halt <= action.HaltAsked || done
	hurried := m.leave != nil && m.leave.Now
	saves := action.CloseSaves{Generation: g.world.Generation, Last: complete && !hurried && !m.futile(g)}
	if m.out.RequestFor(outbox.Close, g.world.Generation, saves) {
		g.closingSince, g.lastSave = m.now, saves.Last
	} else if g.lastSave && (m.futile(g) || m.pressed(g.closingSince)) {
		g.lastSave, saves.Last = false, false
		m.out.Do(saves)
	}
}

// futile reports whether nothing of g can be committed any more: a newer generation was proposed, or
// its incarnation was dropped, and no copy of a node that is not registered counts. A save that is still
// under way would wait for its copies, and this node neither joins nor is ready before it ends.
func (m *Machine) futile(g *workerGroup) bool {
	return !m.self.joined || m.generation() > g.world.Generation
}

// linger is how long processes that the workers of rank 0 left running may go on before what they saved
// is taken as it is.
const linger = 5 * time.Second

// lingers reports whether the workers of rank 0, here, are all through while a process that they started
// is not: it may run for ever, and the job is not done before the last save is.
func (m *Machine) lingers() bool {
	g := m.local.group
	if g.through.IsZero() || g.world.Rank(m.self.node.Ref) != 0 {
		return false
	}
	at := g.through.Add(linger)
	if m.self.job.Roles != nil {
		at = g.through // servers run on: each trainer ended when its saves were whole
	}
	if m.now.Before(at) {
		m.out.Wake(at)
		return false
	}
	return true
}

// getReady prepares a forming world and reports Ready, once nothing older is left here.
func (m *Machine) getReady() {
	w := m.seen.world
	if m.local.ready >= w.Generation || !m.quiet() || m.leave != nil {
		return
	}
	rank, member := m.member()
	c := m.claim()
	ready := action.GetReady{World: *w, Memory: c, Me: m.self.node, Member: member, Ports: m.ports(w, rank),
		InMemory: m.waiting() && m.local.group.inMemory}
	if m.local.stopped >= m.seen.ran { // other workers have trained since an older stop
		ready.StopMS, ready.Idle = m.local.stopMS, m.local.idleAt
	}
	if m.out.RequestFor(outbox.Ready, w.Generation, ready) {
		m.memory.ready = c.Spares
	}
}

// ports is how many the workers of a member need.
func (m *Machine) ports(w *rendezvous.World, rank int) int {
	if rank < 0 || m.self.job.Roles == nil {
		return w.Slots
	}
	return m.self.job.Ports(w.Count, rank)
}

// noteHindrance says once why this node is not ready, because the others wait for it, or makes it leave
// if it never can be.
func (m *Machine) noteHindrance(e event.Readied) {
	var unable interface{ ExitCode() int }
	if errors.As(e.Err, &unable) {
		if m.leave == nil {
			m.leave = &departure{Leaving: event.Leaving{Reason: membership.Unfit, Status: unable.ExitCode(), Err: e.Err}}
		}
		return
	}
	if e.Local && m.local.unready < e.Generation {
		m.local.unready = e.Generation
		m.say("not ready for generation %d: %v; trying again", e.Generation, e.Err)
	}
}

// startWorkers starts the workers of a running world, once, on a read of it that is at most a second
// old. Workers that wait for it are handed it instead.
func (m *Machine) startWorkers() {
	w := m.seen.world
	rank, member := m.member()
	waiting := m.waiting()
	if !member || m.local.group != nil && !waiting || m.leave != nil || m.local.ready != w.Generation || w.Generation <= m.local.floor ||
		w.Phase != rendezvous.Running && w.Phase != rendezvous.Finishing {
		return
	}
	if m.now.Sub(m.seen.asOf) > fresh {
		m.out.Request(outbox.Read, action.Read{})
		return
	}
	m.local.group = &workerGroup{world: *w, codes: make([]*int, w.Workers(rank)), canStay: waiting,
		handed: waiting && m.local.inMemory}
	m.local.floor = max(m.local.floor, w.Generation)
	m.local.exit.record = nil
	m.local.stopMS, m.local.idleAt = 0, time.Time{}
	start := action.Start{World: *w, Rank: rank, Node: m.self.node.Node, Ports: m.local.ports, Resume: m.local.resume,
		Unprepared: m.local.inMemory}
	if waiting {
		m.out.RequestFor(outbox.Start, w.Generation, action.ContinueWorkers{Start: start})
	} else {
		m.out.RequestFor(outbox.Start, w.Generation, action.StartWorkers{Start: start})
	}
}
