package machine

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// relocateEvery is how often a node that others do not reach checks whether its address has
// changed.
const relocateEvery = time.Second

// verifyAddress checks the address of this node after it was cut off from the store, and while
// others do not reach it.
func (m *Machine) verifyAddress() {
	if m.self.joined && m.seen.awaySince.IsZero() &&
		(m.seen.addressUnverified || m.peerFacts().Unreached()) {
		m.out.Request(message.KindLocate, message.Locate{})
	}
}

// keepRegistration writes a lost registration again, if the newest World has this incarnation as a
// member and does not report its loss. Otherwise the incarnation is over, and what was reported of
// it remains true.
func (m *Machine) keepRegistration() {
	if !m.self.joined || m.self.unkeyed.IsZero() {
		return
	}
	if m.seen.asOf.Before(m.self.unkeyed) {
		m.out.Request(message.KindRead, message.Read{})
		return
	}
	w := m.seen.world
	if _, member := m.member(); !member || w.Phase.Ended() ||
		slices.Contains(w.ReportedLost, m.self.node.Incarnation) {
		m.drop()
		return
	}
	if m.seen.addressUnverified {
		return // the registration needs the address
	}
	n := m.self.node
	n.Rev, n.Lease = 0, 0
	if was := m.seen.snap.Node(n.Node); was != nil && was.Incarnation == n.Incarnation &&
		was.Lease != m.self.node.Lease {
		n.Rev = was.Rev // it is there on another lease
	}
	m.out.Request(message.KindRegister, message.Register{Node: n, WorldRev: w.Rev})
}

// drop ends this incarnation. Its workers end next. Then this node joins as a new incarnation.
func (m *Machine) drop() {
	if !m.self.joined {
		return
	}
	m.out.Do(message.Forget{Lease: m.self.node.Lease})
	m.out.Forget(message.KindRegister, message.KindLeave)
	m.self.joined, m.self.unkeyed, m.self.listed = false, time.Time{}, false
}

// departFromWorld ends an incarnation that is not in the newest World, once its workers have ended.
// A leaver first passes the barrier, and then announces that it left.
func (m *Machine) departFromWorld() {
	_, member := m.member()
	w := m.seen.world
	if !m.self.joined || m.leave != nil || !m.workers.Idle() {
		return
	}
	switch {
	case member || !m.self.listed || w.Phase.Ended():
		if m.stoppedAlone() {
			m.drop()
		}
	case !m.leaver():
		m.drop()
	case m.workers.Prepared(w.Generation):
		why := membership.ScaledIn
		if slices.Contains(m.seen.snap.Wish.Drain, m.self.node.Node) {
			why = membership.Drained
		} else if plan.QuarantineOf(w, m.self.node) != nil {
			why = membership.Quarantined
		}
		m.out.Request(message.KindLeave, message.Leave{Me: m.self.node, Generation: w.Generation, Why: why})
	}
}

// stoppedAlone reports whether the workers here ended because a peer announced a newer generation,
// and the store, now that it answers, has none. The others then go on with a new incarnation of
// this node.
func (m *Machine) stoppedAlone() bool {
	g, w := m.workers.Group, m.seen.world
	return g != nil && !g.First && g.Halt == message.HaltEnded && m.seen.peerGeneration == 0 &&
		m.seen.awaySince.IsZero() &&
		w.Generation == g.World.Generation &&
		(w.Phase == rendezvous.Running || w.Phase == rendezvous.Finishing)
}
