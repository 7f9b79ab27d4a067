package machine

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
)

// applyRead handles the result of a read or of the follower.
func (m *Machine) applyRead(e message.StoreRead) {
	o := &m.seen
	if e.Asked {
		m.out.Answered(message.KindRead, e.Err)
	}
	unanswered := e.Asked && o.peerGeneration > 0
	switch {
	case e.Err != nil:
		o.readFailed = o.readFailed || unanswered
		// A record that cannot be decoded may mean anything, so this counts as a store that does
		// not answer.
		if schema.Unreadable(e.Err) {
			o.unreadable = e.Err
		}
		m.storeSilent()
		return
	case o.stale && !e.Asked, m.self.job == nil:
		return // queued while this process stood still, or this agent has no job
	}
	s := e.Snapshot
	o.behind = o.behind || m.isBehind(&e)
	o.setBack = o.behind && (s.Job != nil || s.World != nil)
	if o.behind || m.isWrongJob(&s) {
		o.readFailed = o.readFailed || unanswered
		m.loseJob()
		o.stale = o.stale && !e.Asked
		m.out.Rest(message.KindRead, time.Second)
		return
	}
	o.unreadable, o.wrongJob = nil, false
	m.storeAnswered()
	o.stale = false
	m.noteRevision(s.Cluster, s.Rev)
	if s.World != nil {
		m.acceptWorld(s.World)
	}
	if e.Begun.After(o.asOf) {
		o.asOf = e.Begun
	}
	m.keepSnapshot(s)
}

// noteRevision notes how far the store has got.
func (m *Machine) noteRevision(cluster uint64, rev int64) {
	o := &m.seen
	if cluster != o.cluster || rev > o.rev {
		o.cluster, o.rev, o.revAt = cluster, rev, m.now
	}
}

// isBehind reports whether the store shows less than this node has seen. Only a read counts that
// began after everything that this node has seen. An update of a watch, or of an earlier read, may
// just be late.
func (m *Machine) isBehind(e *message.StoreRead) bool {
	o, s := &m.seen, &e.Snapshot
	if o.rev == 0 || !e.Begun.After(o.revAt) {
		return false
	}
	if w, known := s.World, o.world; w != nil && known != nil && w.UID == known.UID &&
		(w.Generation < known.Generation || w.Generation == known.Generation && w.Proposal != known.Proposal) {
		return true
	}
	if s.Whole {
		now := m.knowsNow()
		return now.Ahead(s) || s.Job.UID == m.self.job.UID && (s.Cluster != o.cluster || s.Rev < o.rev)
	}
	return s.Cluster != o.cluster || s.Rev < o.rev
}

// isWrongJob reports whether s is not of this node's job, or of that job as living nodes made it again.
func (m *Machine) isWrongJob(s *rendezvous.Snapshot) bool {
	uid := m.self.job.UID
	return s.Whole && (s.Job == nil || s.Job.UID != uid) || s.World != nil && s.World.UID != uid ||
		s.World == nil && m.seen.world != nil
}

// keepSnapshot keeps s, apart from its World, unless a newer snapshot is known.
func (m *Machine) keepSnapshot(s rendezvous.Snapshot) {
	o := &m.seen
	if s.Rev < o.snap.Rev && s.Cluster == o.snap.Cluster {
		return
	}
	if s.Rev > o.snap.Rev {
		m.out.EndRest(message.KindStep)
	}
	if s.Whole {
		m.countNodes(s.Nodes)
		m.noteActivity(s.Doing)
	}
	if m.keeper.scope != nil && *m.keeper.scope == follow.ScopeOwn {
		s.Whole = false // it was read before the scope changed, and no watch keeps it current
	}
	if s.Whole || !o.snap.Whole {
		o.snap = s
	}
	if !m.self.joined {
		return // kept for the next time that it joins
	}
	if s.Whole && s.Job.Attempt > m.self.node.Attempt {
		m.drop() // the attempt of this node has ended
		return
	}
	if s.Rev >= m.self.node.Rev {
		switch n := s.Node(m.self.node.Node); {
		case n == nil && m.self.unkeyed.IsZero():
			m.self.unkeyed = m.now
		case n != nil && n.Incarnation != m.self.node.Incarnation:
			m.drop()
		case n != nil && m.self.unkeyed.IsZero():
			m.noteRewritten(n)
		}
	}
}

// noteRewritten handles a registration of this node that was written from outside, for example to
// repair a damaged record. Requests of this node compare its revision, so the node uses the new
// one. A registration on another lease would outlive the node, so the node registers again over it.
func (m *Machine) noteRewritten(n *membership.Node) {
	switch {
	case n.Rev <= m.self.node.Rev:
	case n.Lease == m.self.node.Lease:
		m.self.node.Rev = n.Rev
	default:
		m.self.unkeyed = m.now
	}
}

// acceptWorld keeps w if it is newer than the known World: Worlds never go back.
func (m *Machine) acceptWorld(w *rendezvous.World) {
	known := m.seen.world
	if m.self.job != nil && w.UID != m.self.job.UID {
		return // the answer to a request from before the job was made again
	}
	if known != nil && (w.Generation < known.Generation ||
		w.Generation == known.Generation && w.Rev <= known.Rev) {
		return
	}
	if known == nil || w.Generation > known.Generation {
		m.peers.NewWorld()
	}
	m.seen.world = w
	if w.Master != nil {
		m.seen.ran = w.Generation
	}
	m.noteRevision(m.seen.cluster, w.Rev)
	if s := m.seat(); s.rank >= 0 || s.leaver {
		m.self.listed, m.took = true, true
	}
}

// outage is the absence of the store after which silence and missing keys do not count for one
// window.
const outage = time.Second

// storeSilent records that the store does not answer, or that its answers are not accepted.
func (m *Machine) storeSilent() {
	if m.seen.awaySince.IsZero() {
		m.seen.awaySince = m.now
	}
}

// storeAnswered records an answer of the store that is accepted.
func (m *Machine) storeAnswered() {
	o := &m.seen
	if o.wrongJob || o.unreadable != nil || o.awaySince.IsZero() {
		return
	}
	o.addressUnverified = true
	m.out.EndRest(message.KindLocate)
	if m.now.Sub(o.awaySince) > outage {
		m.peers.StoreWasAway(m.now)
	}
	o.awaySince = time.Time{}
}

// checkPeerGeneration reads the store after a peer announced a newer generation. A read that began
// after the announcement is the answer, even if it shows nothing newer, because the store may have
// been set back.
func (m *Machine) checkPeerGeneration() {
	o := &m.seen
	if o.peerGeneration == 0 || !m.self.joined {
		return
	}
	if o.peerGeneration <= m.generation() || !o.asOf.Before(o.peerGenerationAt) {
		o.peerGeneration, o.readFailed = 0, false
		return
	}
	m.out.Request(message.KindRead, message.Read{})
}
