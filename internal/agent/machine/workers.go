package machine

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// ShortGrace is what workers get between SIGTERM and SIGKILL when nothing is to be saved.
const ShortGrace = 250 * time.Millisecond

// duty is what the workers must do now, by what is known, why, and how long they may take.
func (m *Machine) duty() (Halt, string, time.Duration) {
	c, w := m.crew, m.world
	switch {
	case m.over != nil || m.leave != nil && m.leave.Now:
		return HaltKilled, "", 0
	case !m.in:
		return HaltEnded, "", ShortGrace // another incarnation runs, or none: these are a dead end
	case m.told > c.world.Generation && m.alone:
		return HaltEnded, "", ShortGrace // a newer generation is there, and the store, which would say whether with this node, is not
	case w == nil || w.Generation < c.world.Generation:
		return NoHalt, "", 0
	case w.Generation > c.world.Generation:
		return HaltEnded, "", ShortGrace
	}
	switch w.Phase {
	case rendezvous.Waiting:
		if w.Hold.Planned {
			return HaltAsked, w.Hold.Reason, w.Hold.Limit(m.job)
		}
		return HaltEnded, "", ShortGrace
	case rendezvous.Running, rendezvous.Finishing:
		if m.leave != nil && !m.away.IsZero() {
			return HaltAsked, "leave", time.Duration(m.job.Rules.Grace) // the Hold cannot be written: save all the same
		}
		return NoHalt, "", 0
	}
	return HaltEnded, "", ShortGrace
}

// serve keeps or stops the workers. Nothing here needs the store: a node that is cut off from it and
// hears of a newer generation stops all the same.
func (m *Machine) serve(now time.Time, a *actions) {
	c := m.crew
	if c == nil {
		return
	}
	how, reason, grace := m.duty()
	if how > c.halt && c.started && !c.dead {
		c.halt = how
		if c.haltedAt.IsZero() {
			c.haltedAt = now
		}
		a.do("", HaltWorkers{Gen: c.world.Generation, How: how, Reason: reason, Grace: grace})
	}
	if !c.closed && (c.dead || m.lingers(now, a)) {
		// What was left complete still counts, unless the workers were cut short. In a world that is done
		// none was, even if the end came before this agent knew that nothing is left of them.
		done := m.world != nil && m.world.Generation == c.world.Generation && m.world.Phase == rendezvous.Done
		saves := CloseSaves{Generation: c.world.Generation, Last: (c.halt <= HaltAsked || done) && (m.leave == nil || !m.leave.Now) && !m.futile()}
		if m.requestFor(a, now, "close", c.world.Generation, saves) {
			c.closing, c.last = now, saves.Last
		} else if c.last && (m.futile() || m.pressed(c.closing, now)) {
			c.last, saves.Last = false, false
			a.do("close", saves)
		}
	}
	if c.dead && c.closed {
		m.floor = max(m.floor, c.world.Generation)
		if !m.in || m.world.Generation > c.world.Generation {
			m.crew = nil
		}
	}
}

// futile reports whether nothing of the workers here can be committed any more: a newer generation was proposed, or the
// incarnation that they belong to was dropped, and no copy of a node that is not registered counts. A save that is still
// under way would look for its copies until it loses patience, and this node neither joins nor is ready before it ends.
func (m *Machine) futile() bool { return !m.in || m.world.Generation > m.crew.world.Generation }

// hear asks the store at once what a peer tells of. A read that was begun since is the answer, also when it
// shows nothing newer: the store may have been put back.
func (m *Machine) hear(now time.Time, a *actions) {
	if m.told == 0 || !m.in {
		return
	}
	if m.told <= m.generation() || !m.asOf.Before(m.toldAt) {
		m.told, m.alone = 0, false
		return
	}
	m.request(a, now, "read", Read{})
}

// idle reports whether no worker, and no capture, of any generation is left here.
func (m *Machine) idle() bool { return m.crew == nil || m.crew.dead && m.crew.closed }

// locate finds out whether this node is still where others dial it, when it was cut off.
func (m *Machine) locate(now time.Time, a *actions) {
	if m.in && m.astray && m.away.IsZero() {
		m.request(a, now, "locate", Locate{})
	}
}

// register puts a lost registration back: only if the newest world lists this incarnation as member, and
// nobody told that it was lost. Else it is dropped: it enters anew, and what is told of it stays true.
func (m *Machine) register(now time.Time, a *actions) {
	if !m.in || m.lapsed.IsZero() {
		return
	}
	if m.asOf.Before(m.lapsed) {
		m.request(a, now, "read", Read{})
		return
	}
	if _, member := m.member(); !member || m.world.Phase.Ended() || slices.Contains(m.world.Told, m.me.Incarnation) {
		m.drop(a)
		return
	}
	if m.astray {
		return // its registration would say where it is
	}
	n := m.me
	n.Rev, n.Lease = 0, 0
	m.request(a, now, "register", Register{Node: n, WorldRev: m.world.Rev})
}

// report tells how workers ended. A failure is told under the world, not the fence: once the world
// waits, a worker that ends is a victim of the stop.
func (m *Machine) report(now time.Time, a *actions) {
	if _, member := m.member(); !member || m.stale {
		return
	}
	w, c := m.world, m.crew
	if x := m.exitRecord(); x != nil && !(x.Planned && m.leave != nil) && !reflect.DeepEqual(x, m.lastExit()) {
		m.requestFor(a, now, "exit", w.Generation, ReportExit{World: *w, Node: m.me.Node, Seen: m.exitSeen(), Exit: *x})
	}
	if c == nil || c.failed == nil || c.halt != NoHalt || c.world.Generation != w.Generation || c.failRev == w.Rev ||
		w.Phase != rendezvous.Running && w.Phase != rendezvous.Finishing {
		return
	}
	f := rendezvous.Failure{Node: m.me.Node, Incarnation: m.me.Incarnation, LocalRank: c.failed.LocalRank,
		Rank: w.Rank(m.me.Ref)*w.Slots + c.failed.LocalRank, Code: c.failed.Code, Signal: c.failed.Signal,
		Message: c.failed.Message, Time: now}
	if m.requestFor(a, now, "failure", w.Generation, ReportFailure{World: *w, Failure: f}) {
		c.failRev = w.Rev
	}
}

// exitRecord is what the record of this node should say, or nil if there is nothing to say yet.
func (m *Machine) exitRecord() *rendezvous.Exit {
	w, c := m.world, m.crew
	saved := w.Phase == rendezvous.Waiting && w.Hold.Planned
	x := &rendezvous.Exit{Incarnation: m.me.Incarnation, Codes: make([]*int, w.Slots)}
	switch {
	case c == nil && saved && m.busy["start"] == 0: // it never started: nothing to save
		x.Planned = true
		return x
	case c == nil || c.world.Generation != w.Generation:
		return nil
	}
	all, any := true, false
	for i, code := range c.codes {
		x.Codes[i] = code
		all, any = all && code != nil, any || code != nil
	}
	if saved && c.dead && c.closed && !all {
		x.Planned = true
	}
	if !any && !x.Planned || x.Zero() && w.Rank(m.me.Ref) == 0 && !c.closed {
		return nil // the job is done with the last of these records, and the others, who copy what rank 0 saves, leave
	}
	return x
}

// linger is how long what the workers of rank 0 left running may go on before what they saved is taken as it is.
const linger = 5 * time.Second

// lingers reports whether the workers here, those of rank 0, are all through, and something that they started is not:
// nobody knows for how long, and the job is not done before the last save is.
func (m *Machine) lingers(now time.Time, a *actions) bool {
	c := m.crew
	if c.through.IsZero() || c.world.Rank(m.me.Ref) != 0 {
		return false
	}
	at := c.through.Add(linger)
	if now.Before(at) {
		a.wake(at)
		return false
	}
	return true
}

func (m *Machine) lastExit() *rendezvous.Exit {
	if m.exitGen != m.world.Generation {
		return nil
	}
	return m.exited
}

func (m *Machine) exitSeen() int64 {
	if m.exitGen != m.world.Generation {
		return 0
	}
	return m.exitRev
}

// barrier reports Ready for a forming world once nothing older is left here.
func (m *Machine) barrier(now time.Time, a *actions) {
	w := m.world
	if w == nil || !m.in || w.Phase != rendezvous.Forming || m.ready >= w.Generation || !m.idle() || m.leave != nil || !m.lapsed.IsZero() {
		return
	}
	_, member := m.member()
	if !member && !w.Leaver(m.me.Ref) {
		return
	}
	m.requestFor(a, now, "ready", w.Generation, GetReady{World: *w, Job: *m.job, Head: m.snap.Head, Me: m.me, Member: member, StopMS: m.stopMS, Idle: m.idleAt})
}

// hindered says why this node is not ready, once: the others wait for it, as long as a barrier does.
func (m *Machine) hindered(e Readied, a *actions) {
	var unable interface{ ExitCode() int }
	if errors.As(e.Err, &unable) {
		if m.leave == nil {
			m.leave = &Leaving{Reason: membership.Terminated, Status: unable.ExitCode(), Err: e.Err}
		}
		return
	}
	if e.Local && m.lines.unready < e.Generation {
		m.lines.unready = e.Generation
		m.say(a, "not ready for generation %d: %v; trying again", e.Generation, e.Err)
	}
}

// start starts the workers of a running world, once, on a read of it that is at most a second old.
func (m *Machine) start(now time.Time, a *actions) {
	w := m.world
	rank, member := m.member()
	if !member || m.crew != nil || m.leave != nil || !m.lapsed.IsZero() || m.ready != w.Generation || w.Generation <= m.floor ||
		w.Phase != rendezvous.Running && w.Phase != rendezvous.Finishing {
		return
	}
	if now.Sub(m.asOf) > fresh {
		m.request(a, now, "read", Read{})
		return
	}
	m.crew = &crew{world: *w, codes: make([]*int, w.Slots)}
	m.floor = max(m.floor, w.Generation)
	m.exited = nil
	m.stopMS, m.idleAt = 0, time.Time{}
	m.requestFor(a, now, "start", w.Generation, StartWorkers{Start{World: *w, Rank: rank, Node: m.me.Node, Ports: m.ports, Resume: m.resume}})
}
