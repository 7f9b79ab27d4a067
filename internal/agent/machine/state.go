package machine

import (
	"fmt"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// State is what this node is in its job. docs/PROTOCOL.md, section 5, says what each state may do.
type State int

const (
	StateOutside   State = iota // not registered, and no worker is left here
	StateDropped                // its incarnation is over, or the newest world is without it: workers end
	StateSpare                  // registered, and no member
	StatePreparing              // listed in a forming world, and not yet Ready
	StateReady                  // Ready is in the store
	StateTraining               // member of a running world
	StateFinishing              // member of a finishing world, with workers
	StateWait                   // member of a waiting world
	StateCut                    // the store does not answer, or the registration is gone
	StateLeaving                // asked to go
	StateEnded                  // the attempt is over, or this node cannot take part
)

var stateNames = [...]string{"Outside", "Dropped", "Spare", "Preparing", "Ready", "Training",
	"Finishing", "Wait", "Cut", "Leaving", "Ended"}

func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// State is what this node is now.
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
	return m.place()
}

// place is what the newest world makes of this incarnation.
func (m *Machine) place() State {
	w := m.seen.world
	_, member := m.member()
	forming := member && w.Phase == rendezvous.Forming || m.leaver()
	switch {
	case forming && !m.workers.Prepared(w.Generation):
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

// act does what the state allows.
func (m *Machine) act() {
	m.giveUp()
	if m.seen.stale && m.self.joined {
		if m.leave != nil {
			m.leaving() // what it says rests on nothing that may have changed
		}
		return
	}
	switch s := m.State(); s {
	case StateOutside:
		m.outside()
	case StateCut:
		m.cut()
	case StateLeaving:
		m.stay()
		m.leaving()
	case StateEnded:
		m.end()
	default:
		m.inWorld(s)
	}
	m.watchPeers()
}

// inWorld does what the newest world asks of this incarnation.
func (m *Machine) inWorld(place State) {
	switch place {
	case StateSpare:
		m.rememberWorld()
		m.warmUp()
		m.plan()
	case StatePreparing:
		m.workers.ReportEnd(m.workerFacts(), m.out)
		m.getReady()
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

// outside joins the job, as a new incarnation, or goes.
func (m *Machine) outside() {
	if m.leave != nil {
		m.leaveOutside()
		return
	}
	m.out.Request(outbox.Enter, action.Enter{Again: m.self.job != nil})
}

// cut lets the workers go on. While the registration is gone nothing of this node counts. While
// only the store is silent its requests go on as they would: their guards make a late one harmless.
func (m *Machine) cut() {
	m.reclaimJob()
	if !m.self.unkeyed.IsZero() {
		m.workers.ReportEnd(m.workerFacts(), m.out)
		return
	}
	m.inWorld(m.place())
}

// stay is what a node that goes still does for the others.
func (m *Machine) stay() {
	m.rememberWorld()
	m.workers.ReportEnd(m.workerFacts(), m.out)
	m.plan()
	m.publishTiming()
}

// end leaves the attempt that is over, once no worker is left.
func (m *Machine) end() {
	if m.over != nil {
		return
	}
	m.reclaimJob()
	m.stay()
	if m.leave == nil && m.workers.Idle() {
		m.leave = &departure{Leaving: event.Leaving{Reason: membership.Finished,
			Status: m.seen.world.Outcome.Code}}
	}
	if m.leave != nil {
		m.leaving()
	}
}
