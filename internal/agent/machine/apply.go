package machine

import (
	"errors"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// apply updates the facts with an event. Conclusions are derived afterwards.
func (m *Machine) apply(e message.Event) {
	switch e := e.(type) {
	case message.StoreRead:
		m.applyRead(e)
	case message.Stepped:
		m.applyStep(e)
	case message.Entered, message.Renewed, message.Registered, message.Located, message.Left,
		message.PublishedWarm:
		m.applyRegistration(e)
	case message.Readied:
		m.applyReady(e)
	case message.Started, message.Hung, message.Exited, message.Staying, message.Paused, message.Halted,
		message.Closed, message.ExitReported, message.FailureReported:
		m.workers.Apply(e, m.workerFacts(), m.out)
	case message.Reports:
		for _, one := range e.All {
			m.apply(one)
		}
	case message.Signaled:
		if g := e.Answer.Generation; g > max(m.seen.peerGeneration, m.generation()) && m.self.joined {
			m.seen.peerGeneration, m.seen.peerGenerationAt = g, m.now
		}
		if e.Node != "" {
			m.peers.Apply(e, m.now, m.out)
		}
	case message.Probed, message.WatchersAsked, message.Awaited, message.Suspected, message.Withdrawn,
		message.SuspicionAnswered:
		m.peers.Apply(e, m.now, m.out)
	case message.StoreBehind, message.Remembered, message.Waiting, message.Remade:
		m.applyMemory(e)
	case message.Asked:
		if m.leave == nil || e.Now {
			m.leave = &departure{e.Leaving, m.now}
		}
	case message.Ticked:
	}
}

func (m *Machine) applyStep(e message.Stepped) {
	m.out.Answered(message.KindStep, e.Err)
	switch {
	case e.Err != nil:
	case e.World.Phase == "": // ReportLost does not change the World, and the snapshot shows its event soon
		m.out.Rest(message.KindStep, message.Rest)
	default:
		if e.World.Phase == rendezvous.Running {
			m.keeper.start.ran = e.World.Generation
		}
		m.acceptWorld(&e.World)
	}
}

func (m *Machine) applyRegistration(e message.Event) {
	switch e := e.(type) {
	case message.Entered:
		m.applyEntered(e)
	case message.Renewed:
		m.applyRenewal(e)
	case message.Registered:
		m.applyRegistered(e)
	case message.PublishedWarm:
		m.out.Answered(message.KindWarm, e.Err)
		switch {
		case !m.is(e.As):
		case e.Err == nil:
			m.self.warms = false
		case e.Local && !m.self.unable:
			m.self.unable = true
			m.say("no generation has this node yet: %s; trying again", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
		}
	case message.Located:
		m.out.Answered(message.KindLocate, nil)
		m.out.Rest(message.KindLocate, relocateEvery)
		m.seen.addressUnverified = false
		if m.self.joined && e.Address != m.self.node.Address {
			m.drop() // no peer reaches it at its registered address, which cannot change: it joins again
		}
	case message.Left:
		if !m.is(e.As) {
			return
		}
		m.out.AnsweredFor(message.KindLeave, leavePriority(message.Leave{Quick: e.Quick}), e.Err)
		if e.Err == nil || store.Moved(e.Err) || e.Quick {
			m.drop()
		}
	}
}

// is reports whether inc is the registered incarnation of this node.
func (m *Machine) is(inc membership.Incarnation) bool {
	return m.self.joined && m.self.node.Incarnation == inc
}

func (m *Machine) applyEntered(e message.Entered) {
	m.out.Answered(message.KindEnter, nil)
	m.notices.Queue(e.Lines...)
	if e.Over != nil {
		m.over = e.Over
		if m.over.Status == 0 && m.over.Err == nil && !m.took && m.self.job != nil {
			m.over.Status, m.over.Err = problem.JobDone.Status(), m.stoodBy()
		}
		return
	}
	if m.self.job != nil && m.self.job.UID != e.Job.UID {
		m.rejoin(e.Job)
	}
	m.self = identity{joined: true, node: e.Node, job: &e.Job, head: e.Head,
		fence: e.Fence, logs: e.Logs, warms: e.Warms}
	m.keeper.nodes, m.keeper.before = e.Nodes, e.Before
	m.out.Do(message.Renew{Lease: e.Node.Lease, TTL: e.TTL})
	m.seen.awaitsJob, m.seen.stale, m.seen.addressUnverified = false, false, false
	m.seen.peerGeneration, m.seen.readFailed = 0, false
	m.workers.Joined()
	m.peers.Joined(e.TTL, m.now)
	m.storeAnswered()
}

func (m *Machine) applyRegistered(e message.Registered) {
	if !m.is(e.As) {
		if e.Err == nil {
			m.out.Do(message.Forget{Lease: e.Lease}) // that incarnation is over
		}
		return
	}
	m.out.Answered(message.KindRegister, e.Err)
	switch {
	case e.Err == nil:
		m.out.Do(message.Renew{Lease: e.Lease, TTL: e.TTL})
		m.self.node.Rev, m.self.node.Lease, m.self.unkeyed = e.Rev, e.Lease, time.Time{}
		m.peers.Reregistered(m.now)
	case store.Moved(e.Err):
		m.self.unkeyed = m.now // read the World again first
	}
}

func (m *Machine) applyRenewal(e message.Renewed) {
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
