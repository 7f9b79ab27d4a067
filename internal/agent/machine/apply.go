package machine

import (
	"errors"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// apply takes the facts out of an event. What follows from them is derived after it.
func (m *Machine) apply(e event.Event) {
	switch e := e.(type) {
	case event.Saw:
		m.applyRead(e)
	case event.Stepped:
		m.applyStep(e)
	case event.Entered, event.Renewed, event.Registered, event.Located, event.Left:
		m.applyRegistration(e)
	case event.Readied, event.Started, event.Hung, event.Exited, event.Staying, event.Paused, event.Halted,
		event.Closed, event.ExitReported, event.FailureReported:
		m.applyWorkers(e)
	case event.Probed, event.Signaled, event.Suspected, event.Withdrawn:
		m.applyPeers(e)
	case event.StoreBehind, event.Remembered, event.Claiming, event.Reclaimed:
		m.applyMemory(e)
	case event.Asked:
		if m.leave == nil || e.Now {
			m.leave = &departure{e.Leaving, m.now}
		}
	case event.Ticked:
	}
}

func (m *Machine) applyStep(e event.Stepped) {
	m.out.Answered(outbox.Step, e.Err)
	switch {
	case e.Err != nil:
	case e.World.Phase == "": // Tell leaves the world as it is, and the snapshot shows it in a moment
		m.out.Rest(outbox.Step, outbox.Rest)
	default:
		if e.World.Phase == rendezvous.Running {
			m.keeper.start.ran = e.World.Generation
		}
		m.acceptWorld(&e.World)
	}
}

func (m *Machine) applyRegistration(e event.Event) {
	switch e := e.(type) {
	case event.Entered:
		m.applyEntered(e)
	case event.Renewed:
		m.applyRenewal(e)
	case event.Registered:
		m.applyRegistered(e)
	case event.Located:
		m.out.Answered(outbox.Locate, nil)
		m.seen.addressUnverified = false
		if m.self.joined && e.Address != m.self.node.Address {
			m.drop() // no peer reaches it where its registration says, which cannot change: it joins anew
		}
	case event.Left:
		if !m.is(e.As) {
			return
		}
		m.out.AnsweredFor(outbox.Leave, pace(e.Quick), e.Err)
		if e.Err == nil || store.Moved(e.Err) || e.Quick {
			m.drop()
		}
	}
}

// is reports whether this node is registered as inc now.
func (m *Machine) is(inc membership.Incarnation) bool {
	return m.self.joined && m.self.node.Incarnation == inc
}

func (m *Machine) applyEntered(e event.Entered) {
	m.out.Answered(outbox.Enter, nil)
	m.notices.Queue(e.Lines...)
	if e.Over != nil {
		m.over = e.Over
		return
	}
	if m.self.job != nil && m.self.job.UID != e.Job.UID {
		m.adoptJob(e.Job)
	}
	m.self = identity{joined: true, node: e.Node, job: &e.Job, logs: e.Logs}
	m.out.Do(action.Renew{Lease: e.Node.Lease, TTL: e.TTL})
	m.seen.awaitsJob, m.seen.stale, m.seen.addressUnverified = false, false, false
	m.seen.peerGeneration, m.seen.readFailed = 0, false
	m.local.exit = reportedExit{}
	m.peers.Joined(e.TTL, m.now)
	m.storeAnswered()
}

func (m *Machine) applyRegistered(e event.Registered) {
	if !m.is(e.As) {
		if e.Err == nil {
			m.out.Do(action.Forget{Lease: e.Lease}) // the incarnation that asked for it is over
		}
		return
	}
	m.out.Answered(outbox.Register, e.Err)
	switch {
	case e.Err == nil:
		m.out.Do(action.Renew{Lease: e.Lease, TTL: e.TTL})
		m.self.node.Rev, m.self.node.Lease, m.self.unkeyed = e.Rev, e.Lease, time.Time{}
		m.peers.Reregistered(m.now)
	case store.Moved(e.Err):
		m.self.unkeyed = m.now // read again what the world says now
	}
}

func (m *Machine) applyRenewal(e event.Renewed) {
	if !m.self.joined || e.Lease != m.self.node.Lease {
		return
	}
	switch {
	case e.Err == nil:
		m.storeAnswered()
		m.peers.Renewed(e.Sent)
	case errors.Is(e.Err, store.ErrLeaseLost):
		m.peers.LeaseUncertain()
		if m.self.unkeyed.IsZero() {
			m.self.unkeyed = m.now
		}
	default:
		m.peers.LeaseUncertain()
		m.storeSilent()
	}
}

func (m *Machine) applyWorkers(e event.Event) {
	switch e := e.(type) {
	case event.Readied:
		m.applyReady(e)
	case event.Started:
		m.out.AnsweredFor(outbox.Start, e.Generation, nil)
		m.applyStarted(e)
	case event.Hung:
		m.applyHang(e)
	case event.Exited:
		m.applyExit(e)
	case event.Staying:
		if g := m.local.group; g != nil && g.world.Generation == e.Generation {
			g.canStay = e.Can
		}
	case event.Paused:
		m.applyPaused(e)
	case event.Halted:
		if g := m.local.group; g != nil && g.world.Generation == e.Generation {
			g.dead, g.canStay = true, false
			m.noteIdle(g)
		}
	case event.Closed:
		m.out.AnsweredFor(outbox.Close, e.Generation, e.Err)
		if g := m.local.group; g != nil && g.world.Generation <= e.Generation && e.Err == nil {
			g.closed = true
		}
	case event.ExitReported:
		m.out.AnsweredFor(outbox.Exit, e.Generation, e.Err)
		if e.Err == nil || store.Moved(e.Err) {
			m.local.exit.generation, m.local.exit.rev = e.Generation, e.Rev
			if e.Err == nil {
				m.local.exit.record = &e.Exit
			}
		}
	case event.FailureReported:
		m.out.AnsweredFor(outbox.Failure, e.Generation, e.Err)
	}
}

func (m *Machine) applyReady(e event.Readied) {
	m.out.AnsweredFor(outbox.Ready, e.Generation, e.Err)
	m.noteHindrance(e)
	if e.Err == nil {
		m.noteWritten(nil) // the memory is written before Ready is sent
		m.noteMemory(e.Generation, m.memory.ready)
		if e.Generation >= m.local.ready {
			m.local.ready, m.local.ports, m.local.resume, m.local.inMemory = e.Generation, e.Ports, e.Resume, e.InMemory
			if m.generation() == e.Generation && e.Begun.After(m.seen.asOf) {
				m.seen.asOf = e.Begun // no newer world was there when Ready was applied
			}
		}
	}
	m.local.floor = max(m.local.floor, e.Generation-1) // never one again that it reported beyond
}

func (m *Machine) applyStarted(e event.Started) {
	g := m.local.group
	if g == nil || g.world.Generation != e.Generation {
		return
	}
	if e.Err == nil {
		g.started, g.startedAt = true, m.now
		return
	}
	g.dead = true
	for i := range g.codes {
		code := e.Code
		g.codes[i] = &code
	}
	g.failures = append(g.failures, m.failure(&g.world, event.WorkerExit{Code: e.Code, Message: e.Err.Error()}))
}

func (m *Machine) applyHang(e event.Hung) {
	if g := m.local.group; g != nil && g.world.Generation == e.Generation && g.halt == action.NoHalt {
		e.Failure.Time = m.now
		g.failures = append(g.failures, e.Failure)
	}
}

func (m *Machine) applyExit(e event.Exited) {
	g := m.local.group
	if g == nil || g.world.Generation != e.Generation || e.Process.Name == "" && e.LocalRank >= len(g.codes) {
		return
	}
	g.canStay = false
	if e.Ours {
		return // it was asked or signalled: no code of its own, and never a failure
	}
	if e.Process.Name != "" { // the trainers alone say when the job is through
		if e.Code != 0 && g.halt == action.NoHalt {
			g.failures = append(g.failures, m.failure(&g.world, e.WorkerExit))
		}
		return
	}
	code := e.Code
	g.codes[e.LocalRank] = &code
	if code != 0 && g.halt == action.NoHalt {
		g.failures = append(g.failures, m.failure(&g.world, e.WorkerExit))
	}
	if !slices.ContainsFunc(g.codes, func(code *int) bool { return code == nil || *code != 0 }) {
		g.through = m.now
	}
}

func (m *Machine) applyPeers(e event.Event) {
	switch e := e.(type) {
	case event.Probed:
		m.out.AnsweredAbout(outbox.Probe, e.About.Incarnation, nil)
		m.peers.ApplyProbe(e, m.now)
	case event.Signaled:
		m.applySignal(e.Signal)
	case event.Suspected:
		m.peers.ApplySuspected(e, m.out)
	case event.Withdrawn:
		m.out.AnsweredAbout(outbox.Withdraw, e.About, e.Err)
		m.out.RestAbout(outbox.Withdraw, e.About, outbox.Rest) // the snapshot shows it in a moment
	}
}

func (m *Machine) applySignal(s event.Signal) {
	if s.Generation > max(m.seen.peerGeneration, m.generation()) && m.self.joined {
		m.seen.peerGeneration, m.seen.peerGenerationAt = s.Generation, m.now
	}
	if s.About.Node != "" {
		m.peers.ApplySignal(s, m.now)
	}
}
