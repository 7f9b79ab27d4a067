package machine

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// statusTimeout is the exit status of a node that waited for a World for --wait-timeout.
const statusTimeout = 124

// leaveOutside ends an agent that is not registered. One that is about to register announces its
// departure after registering. One that is refused, or does not reach the store, just ends.
func (m *Machine) leaveOutside() {
	joining := m.out.UnderWay(message.KindEnter) && m.self.job != nil && !m.seen.awaitsJob && !m.leave.Now
	if joining && m.now.Sub(m.leave.since) < message.Patience {
		m.out.Wake(m.leave.since.Add(message.Patience))
		return
	}
	m.over = &message.Result{Status: m.leave.Status, Err: m.leave.Err}
}

// leaving takes a registered node out of the job. A member that leaves breaks the collectives of
// the others. So it first writes a planned Hold, in which all of them save, and leaves when its own
// workers have ended.
func (m *Machine) leaving() {
	if m.holdsFirst() {
		m.out.Request(message.KindStep, message.Take{Seen: m.ownSnapshot(), Me: m.self.node, Step: m.leaveHold()})
		if !m.awayFor(message.Patience) {
			return
		}
	}
	if !m.workers.Idle() {
		return
	}
	away := !m.seen.awaySince.IsZero()
	if away && (m.leave.Now || m.awayFor(message.Patience)) {
		m.drop() // it cannot announce its departure; the end of its lease shows it
		m.workers.Forget()
		m.over = &message.Result{Status: m.leave.Status, Err: m.leave.Err}
		return
	}
	l := message.Leave{Me: m.self.node, Generation: m.generation(), Why: m.leave.Reason,
		Stop: m.stopsJob(), Quick: m.leave.Now}
	m.out.RequestFor(message.KindLeave, leavePriority(l), l)
}

// holdsFirst reports whether the others must save before this node leaves.
func (m *Machine) holdsFirst() bool {
	_, member := m.member()
	if !member || m.seen.stale || !m.self.unkeyed.IsZero() || m.leave.Now {
		return false
	}
	switch m.seen.world.Phase {
	case rendezvous.Forming, rendezvous.Running, rendezvous.Finishing:
		x := m.workers.LastExit(m.generation())
		return x == nil || !x.Zero() // after exit code 0 of all its workers, its part is done
	}
	return false
}

// awayFor reports whether the store has not answered for longer than d.
func (m *Machine) awayFor(d time.Duration) bool {
	return !m.seen.awaySince.IsZero() && m.now.Sub(m.seen.awaySince) >= d
}

// leavePriority numbers requests to leave, so that a quick one replaces a slow one.
func leavePriority(l message.Leave) schema.Generation {
	if l.Quick {
		return 2
	}
	return 1
}

// leaveHold is the planned Hold of a member that leaves.
func (m *Machine) leaveHold() plan.Step {
	w := m.seen.world
	return plan.Hold{Ledger: w.Ledger, Hold: rendezvous.Hold{Why: rendezvous.Saving, Planned: true,
		Reason: "leave", Cause: rendezvous.CauseDrain, Present: max(0, w.Count-1),
		Text: m.self.node.Node + " leaves (" + string(m.leave.Reason) + ")"}}
}

// ownSnapshot is the snapshot on which an ordinary member plans a Hold. As long as its World
// neither waits nor has ended, the fence is at the generation of that World.
func (m *Machine) ownSnapshot() rendezvous.Snapshot {
	w := m.seen.world
	return rendezvous.Snapshot{Job: m.self.job, World: w, Fence: w.Generation,
		Wish: rendezvous.Wish{NP: w.NP}}
}

// stopsJob returns the snapshot on which to stop the job, or nil. If elastic chose the id of the
// job, the job stops when its last node leaves on Ctrl-C, because its user does not know an id to
// return to.
func (m *Machine) stopsJob() *rendezvous.Snapshot {
	s := m.seen.snap
	if !m.self.job.Made || m.leave.Reason != membership.Interrupted || !s.Whole ||
		len(s.Nodes) > 1 || !m.current() || m.seen.world != nil && m.seen.world.Phase.Ended() {
		return nil
	}
	return &s
}

// giveUp makes this node leave if no World has run here for --wait-timeout.
func (m *Machine) giveUp() {
	if m.cfg.WaitTimeout == 0 || m.leave != nil || m.over != nil {
		return
	}
	if m.workers.IdleFor(m.now) >= m.cfg.WaitTimeout {
		m.leave = &departure{message.Leaving{Reason: membership.Terminated, Status: statusTimeout}, m.now}
	}
}
