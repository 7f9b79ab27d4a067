package machine

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
)

// detection is what this agent saw itself of other nodes, and what it makes of that.
type detection struct {
	evidence verdict.Evidence
	view     verdict.View
	crowded  bool                   // many were in doubt when they were last judged
	doubts   map[verdict.Doubt]bool // at that time

	suspected    map[membership.Incarnation]event.Signal // by this agent, now
	written      map[membership.Incarnation]bool         // its records in the store
	newestRecord int64                                   // revision of the newest that may still be there; 0: none
	probed       map[membership.Incarnation]time.Time
	watched      []membership.Ref
	hello        action.Hello
}

// forgetEvidence drops what was seen of other nodes. The watch over them tells again what holds.
func (m *Machine) forgetEvidence() {
	p := &m.peers
	p.evidence = verdict.Evidence{Answers: map[membership.Incarnation]verdict.Answered{},
		Holds: map[string]map[string]time.Time{}, Absent: map[membership.Incarnation]time.Time{}, Void: p.evidence.Void}
	p.suspected, p.written = map[membership.Incarnation]event.Signal{}, map[membership.Incarnation]bool{}
	p.probed = map[membership.Incarnation]time.Time{}
	p.watched = nil
}

// judge derives who is alive, from the snapshot and from what this agent saw itself.
func (m *Machine) judge() {
	p, snap := &m.peers, &m.seen.snap
	if !m.self.joined || !snap.Whole {
		p.view = verdict.View{}
		return
	}
	refs := m.listedRefs()
	absent := make(map[membership.Incarnation]time.Time, len(p.evidence.Absent))
	for _, r := range refs {
		if n := snap.Node(r.Node); n == nil || n.Incarnation != r.Incarnation {
			since, known := p.evidence.Absent[r.Incarnation]
			if !known {
				since = m.now
			}
			absent[r.Incarnation] = since
		}
		// A suspicion of this agent counts once its record is in the store. Otherwise it would hold
		// a world for a node that all others take for alive.
		if _, ok := p.suspected[r.Incarnation]; ok {
			if p.evidence.Holds[r.Node] == nil {
				p.evidence.Holds[r.Node] = map[string]time.Time{}
			}
			p.evidence.Holds[r.Node][m.self.node.Node] = m.now
		}
	}
	p.evidence.Absent = absent
	p.evidence.Isolated = m.isolated()
	p.view = verdict.Judge(refs, snap.Nodes, snap.Left, snap.Suspects, p.evidence, m.limits, m.now)
	p.view.Rev = snap.Rev
	m.noteCrowd(verdict.ManyInDoubt(p.view, len(refs)))
	m.keeper.marks.Update(snap, p.view, m.now)
}

// noteCrowd makes silence void for a window when many come into doubt at once. It does so once:
// doubts that hold after the window count, also when a verdict lapses until these nodes are dialled
// again.
func (m *Machine) noteCrowd(crowd bool) {
	p := &m.peers
	doubts, news := map[verdict.Doubt]bool{}, false
	for _, s := range p.view.Members {
		for _, d := range s.Doubts() {
			doubts[d] = true
			news = news || s.State != verdict.Gone && !p.doubts[d]
		}
	}
	if crowd && !p.crowded && news && p.evidence.Void.Before(m.now) {
		p.evidence.Void = m.now.Add(m.limits.Window)
	}
	p.crowded, p.doubts = crowd, doubts
}

// listedRefs are the members and leavers of the world that the snapshot shows.
func (m *Machine) listedRefs() []membership.Ref {
	w := m.seen.snap.World
	if w == nil {
		return nil
	}
	return append(w.Members[:len(w.Members):len(w.Members)], w.Leavers...)
}

// silence counts the nodes that this agent dialled lately in vain, and reports whether any
// answered.
func (m *Machine) silence() (silent int, answered bool) {
	for inc, a := range m.peers.evidence.Answers {
		if inc == m.self.node.Incarnation || m.now.Sub(a.At) > m.limits.Fresh {
			continue
		}
		if a.Kind == membership.NoAnswer {
			silent++
		} else {
			answered = true
		}
	}
	return silent, answered
}

// isolated reports whether several others were dialled and none answered: this node may be the one
// that is cut off, and silence proves nothing.
func (m *Machine) isolated() bool {
	silent, answered := m.silence()
	return silent >= 2 && !answered
}

// MaxWitnesses is how many nodes are asked at most whether they reach another one.
const MaxWitnesses = 3

// witnesses are some of the nodes that are not in doubt, dialled while others are silent. Without
// them all nodes that are left would take themselves for isolated when two are lost at once.
func (m *Machine) witnesses() (refs []membership.Ref) {
	if silent, _ := m.silence(); silent < 2 {
		return nil
	}
	nodes := m.seen.snap.Nodes
	for i := range nodes {
		r := nodes[(i+int(m.now.Unix()))%len(nodes)].Ref // not the same ones for ever: they may be lost as well
		member := m.peers.view.Find(r)
		alive := member == nil || member.State == verdict.Alive
		if alive && r.Incarnation != m.self.node.Incarnation && len(refs) < MaxWitnesses {
			refs = append(refs, r)
		}
	}
	return refs
}

// probeEvery is how long the answer to a dial is not asked for again.
const probeEvery = 500 * time.Millisecond

// probe dials the nodes in doubt and the witnesses, and asks the watchers: a verdict needs answers
// of now.
func (m *Machine) probe(turn int) {
	if turn >= deputies && len(m.peers.suspected) == 0 {
		return
	}
	ask := append(m.peers.view.Ask[:len(m.peers.view.Ask):len(m.peers.view.Ask)], m.witnesses()...)
	for _, r := range ask {
		if at, ok := m.peers.probed[r.Incarnation]; ok && m.now.Sub(at) < probeEvery {
			m.wake(at.Add(probeEvery))
			continue
		}
		if m.requestAbout(slotProbe, r.Incarnation, action.Probe{About: r, Watchers: m.watchersOf(r)}) {
			m.peers.probed[r.Incarnation] = m.now
		}
	}
}

// watchersOf are the other registered nodes whose suspicion of r is in the store.
func (m *Machine) watchersOf(r membership.Ref) (refs []membership.Ref) {
	snap := &m.seen.snap
	for _, s := range snap.Suspects {
		if s.Node != r.Node || s.Incarnation != r.Incarnation || s.By == m.self.node.Node {
			continue
		}
		if n := snap.Node(s.By); n != nil && n.Incarnation == s.Watcher {
			refs = append(refs, n.Ref)
		}
	}
	return refs
}
