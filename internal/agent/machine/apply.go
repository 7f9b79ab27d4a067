package machine

import (
	"errors"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// apply updates the facts with an event. Conclusions are derived afterwards.
func (m *Machine) apply(e event.Event) {
	switch e := e.(type) {
	case event.StoreRead:
		m.applyRead(e)
	case event.Stepped:
		m.applyStep(e)
	case event.Entered, event.Renewed, event.Registered, event.Located, event.Left, event.PublishedWarm:
		m.applyRegistration(e)
	case event.Readied:
		m.applyReady(e)
	case event.Started, event.Hung, event.Exited, event.Staying, event.Paused, event.Halted, event.Closed,
		event.ExitReported, event.FailureReported:
		m.workers.Apply(e, m.workerFacts(), m.out)
	case event.Probed, event.WatchersAsked, event.Awaited, event.Signaled, event.Suspected, event.Withdrawn,
		event.SuspicionAnswered, event.Reports:
		m.applyPeers(e)
	case event.StoreBehind, event.Remembered, event.Waiting, event.Remade:
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
	case e.World.Phase == "": // ReportLost does not change the World, and the snapshot shows its event soon
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
	case event.PublishedWarm:
		m.out.Answered(outbox.Warm, e.Err)
		switch {
		case !m.is(e.As):
		case e.Err == nil:
			m.self.warms = false
		case e.Local && !m.self.unable:
			m.self.unable = true
			m.say("no generation has this node yet: %s; trying again", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
		}
	case event.Located:
		m.out.Answered(outbox.Locate, nil)
		m.out.Rest(outbox.Locate, relocateEvery)
		m.seen.addressUnverified = false
		if m.self.joined && e.Address != m.self.node.Address {
			m.drop() // no peer reaches it at its registered address, which cannot change: it joins again
		}
	case event.Left:
		if !m.is(e.As) {
			return
		}
		m.out.AnsweredFor(outbox.Leave, leavePriority(action.Leave{Quick: e.Quick}), e.Err)
		if e.Err == nil || store.Moved(e.Err) || e.Quick {
			m.drop()
		}
	}
}

// is reports whether inc is the registered incarnation of this node.
func (m *Machine) is(inc membership.Incarnation) bool {
	return m.self.joined && m.self.node.Incarnation == inc
}

func (m *Machine) applyEntered(e event.Entered) {
	m.out.Answered(outbox.Enter, nil)
	m.notices.Queue(e.Lines...)
	if e.Over != nil {
		m.over = e.Over
		if m.over.Status == 0 && m.over.Err == nil && !m.took && m.self.job != nil {
			m.over.Status, m.over.Err = refusal.StatusDone, m.stoodBy()
		}
		return
	}
	if m.self.job != nil && m.self.job.UID != e.Job.UID {
		m.rejoin(e.Job)
	}
	m.self = identity{joined: true, node: e.Node, job: &e.Job, head: e.Head,
		fence: e.Fence, logs: e.Logs, warms: e.Warms}
	m.keeper.nodes, m.keeper.before = e.Nodes, e.Before
	m.out.Do(action.Renew{Lease: e.Node.Lease, TTL: e.TTL})
	m.seen.awaitsJob, m.seen.stale, m.seen.addressUnverified = false, false, false
	m.seen.peerGeneration, m.seen.readFailed = 0, false
	m.workers.Joined()
	m.peers.Joined(e.TTL, m.now)
	m.storeAnswered()
}

func (m *Machine) applyRegistered(e event.Registered) {
	if !m.is(e.As) {
		if e.Err == nil {
			m.out.Do(action.Forget{Lease: e.Lease}) // that incarnation is over
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
		m.self.unkeyed = m.now // read the World again first
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

func (m *Machine) applyPeers(e event.Event) {
	switch e := e.(type) {
	case event.Reports:
		for _, one := range e.All {
			m.applyPeers(one)
		}
	case event.Probed:
		m.out.AnsweredAbout(outbox.Probe, e.About.Incarnation, nil)
		m.peers.ApplyProbe(e, m.now)
	case event.WatchersAsked:
		m.out.AnsweredAbout(outbox.Probe, e.About.Incarnation, nil)
		m.peers.ApplyHolds(e, m.now)
	case event.Awaited:
		m.out.AnsweredAbout(outbox.AwaitAnswer, e.About.Incarnation, e.Err)
		m.peers.ApplyAwaited(e, m.now)
	case event.SuspicionAnswered:
		m.out.Answered(outbox.AnswerSuspicion, e.Err)
		m.out.Rest(outbox.AnswerSuspicion, outbox.Rest) // the snapshot shows it in a moment
	case event.Signaled:
		m.applySignal(e.Signal)
	case event.Suspected:
		m.peers.ApplySuspected(e, m.out)
	case event.Withdrawn:
		m.out.Answered(outbox.Withdraw, e.Err)
		m.out.Rest(outbox.Withdraw, outbox.Rest) // the snapshot shows it in a moment
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
