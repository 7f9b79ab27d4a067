package machine

import (
	"fmt"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// State is the state of this node in its job. docs/PROTOCOL.md, section 5, says what each state
// allows.
type State int

const (
	// StateOutside: not registered, and no worker is left here. If the job had failed or was stopped
	// when this agent came, it opens a new attempt. If another World has ended since, this agent ends.
	StateOutside State = iota
	// StateDropped: its incarnation is over, or the newest World is without it. Its workers end.
	StateDropped
	StateSpare // registered, and no member
	// StatePreparing: listed in a forming World, or member of a running one, and not known to be
	// Ready. A leaver stops its workers and closes their captures, and needs no checkpoint.
	StatePreparing
	StateReady     // Ready is in the store
	StateTraining  // member of a running World
	StateFinishing // member of a finishing World, with workers
	// StateWait: member of a waiting World. After a planned Hold the exit record follows the last
	// commit, also on a node that never started a worker.
	StateWait
	StateCut // the store does not answer, or the registration is gone
	// StateLeaving: asked to go. All members save, because when one worker leaves a collective the
	// others fail.
	StateLeaving
	StateEnded // the attempt has ended, or this node cannot take part
)

var stateNames = [...]string{"Outside", "Dropped", "Spare", "Preparing", "Ready", "Training",
	"Finishing", "Wait", "Cut", "Leaving", "Ended"}

func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// State returns the state of this node.
func (m *Machine) State() State {
	switch {
	case m.over != nil:
		return StateEnded
	case !m.self.joined && m.workers.Group != nil:
		return StateDropped
	case !m.self.joined:
		return StateOutside
	case m.ended():
		return StateEnded
	case m.leave != nil:
		return StateLeaving
	case !m.self.unkeyed.IsZero() || !m.seen.awaySince.IsZero():
		return StateCut
	}
	return m.worldState()
}

// worldState returns the state that follows from the newest World.
func (m *Machine) worldState() State {
	w := m.seen.world
	_, member := m.member()
	forming := member && w.Phase == rendezvous.Forming || m.leaver()
	// The World may run although this node does not know that its Ready was written: the store was lost then.
	unsure := member && w.Phase == rendezvous.Running
	switch {
	case (forming || unsure) && !m.workers.Prepared(w.Generation):
		return StatePreparing
	case forming:
		return StateReady
	case member && w.Phase == rendezvous.Waiting:
		return StateWait
	case member && w.Phase == rendezvous.Finishing && m.workers.Group != nil:
		return StateFinishing
	case member:
		return StateTraining
	case m.self.listed:
		return StateDropped
	}
	return StateSpare
}

// runState does what the state of this node allows.
func (m *Machine) runState() {
	m.giveUp()
	if m.seen.stale && m.self.joined {
		if m.leave != nil {
			m.leaving() // leaving does not depend on what may have changed
		}
		return
	}
	switch s := m.State(); s {
	case StateOutside:
		m.runOutside()
	case StateCut:
		m.runCut()
	case StateLeaving:
		m.serveOthers()
		m.leaving()
	case StateEnded:
		m.leaveEnded()
	default:
		m.inWorld(s)
	}
	m.watchPeers()
}

// inWorld does what the newest World needs from this incarnation.
func (m *Machine) inWorld(s State) {
	switch s {
	case StateSpare:
		m.rememberWorld()
		m.warmUp()
		m.plan()
	case StatePreparing:
		m.workers.ReportEnd(m.workerFacts(), m.out)
		m.workers.GetReady(m.knowsNow(), m.workerFacts(), m.out)
		m.plan()
	case StateReady:
		m.workers.ReportEnd(m.workerFacts(), m.out)
		m.plan()
	case StateTraining, StateFinishing:
		m.rememberWorld()
		m.workers.ReportEnd(m.workerFacts(), m.out)
		m.workers.Start(m.workerFacts(), m.out)
		m.plan()
		m.publishTiming()
	case StateWait:
		m.rememberWorld()
		m.workers.ReportEnd(m.workerFacts(), m.out)
		m.plan()
		m.publishTiming()
	case StateDropped:
		if m.self.joined {
			m.rememberWorld()
			m.plan()
		}
	}
}

// runOutside joins the job as a new incarnation, or ends the agent if it was asked to leave.
func (m *Machine) runOutside() {
	if m.leave != nil {
		m.leaveOutside()
		return
	}
	if m.out.UnderWay(message.KindRemake) {
		return // it may still make the data of this node that of the job
	}
	m.out.Request(message.KindEnter, message.Enter{Again: m.self.job != nil})
}

// runCut lets the workers run on. Without a registration this node takes no part in the job. If
// only the store is silent, requests are sent as usual, because their guards make a late one
// harmless.
func (m *Machine) runCut() {
	m.remakeJob()
	if !m.self.unkeyed.IsZero() {
		m.workers.ReportEnd(m.workerFacts(), m.out)
		return
	}
	m.inWorld(m.worldState())
}

// serveOthers does what a leaving node still does for the others.
func (m *Machine) serveOthers() {
	m.rememberWorld()
	m.workers.ReportEnd(m.workerFacts(), m.out)
	m.plan()
	m.publishTiming()
}

// stoodBy is the error of a spare whose job is done: a node that did not train never ends with 0.
func (m *Machine) stoodBy() error {
	j := m.self.job
	return problem.New(problem.JobDone, "job %s is done, and this node did not train: it stood by as a spare", j.Name).
		Because("its world had enough nodes").
		Cure("one node less, or --np with more; --done-ok takes this for success").Detail("job", string(j.Name))
}

// leaveEnded leaves the attempt, which has ended, once no worker is left.
func (m *Machine) leaveEnded() {
	if m.over != nil {
		return
	}
	m.remakeJob()
	m.serveOthers()
	if m.leave == nil && m.workers.Idle() && m.rememberedEnd() {
		m.leave = &departure{Leaving: message.Leaving{Reason: membership.Finished,
			Status: m.seen.world.Outcome.Code}}
		if m.seen.world.Phase == rendezvous.Done && !m.took {
			m.leave.Status, m.leave.Err = problem.JobDone.Status(), m.stoodBy()
		}
	}
	if m.leave != nil {
		m.leaving()
	}
}
