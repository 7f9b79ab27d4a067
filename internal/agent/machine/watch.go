package machine

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
)

// watchPeers sets which nodes this one watches, writes and withdraws its suspicions, and answers
// the others with them.
func (m *Machine) watchPeers() {
	if !m.self.joined || m.over != nil {
		return
	}
	p := &m.peers
	if refs := m.predecessors(); !sameRefs(refs, p.watched) {
		p.watched = refs
		m.do(action.WatchNodes{Refs: refs})
	}
	for _, inc := range slices.Sorted(maps.Keys(p.suspected)) {
		s := p.suspected[inc]
		if !slices.ContainsFunc(p.watched, s.About.Same) { // nothing tells this node any more whether it answers again
			delete(p.suspected, inc)
			continue
		}
		m.writeSuspicion(s)
	}
	m.withdrawSuspicions()
	if hello := m.hello(); !reflect.DeepEqual(hello, p.hello) {
		p.hello = hello
		m.do(action.SayHello{Hello: hello})
	}
}

func (m *Machine) hello() action.Hello {
	h := action.Hello{UID: m.self.job.UID, Node: m.self.node.Node, Incarnation: m.self.node.Incarnation,
		Generation: m.generation()}
	if g := m.local.group; g != nil {
		h.Failed = len(g.failures) > 0
		h.Ended = g.dead
	}
	for _, inc := range slices.Sorted(maps.Keys(m.peers.suspected)) {
		h.Suspects = append(h.Suspects, m.peers.suspected[inc].About)
	}
	slices.SortStableFunc(h.Suspects, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return h
}

// writeSuspicion puts a suspicion into the store, once. That the connection to a node closed which
// left or was replaced is no news.
func (m *Machine) writeSuspicion(s event.Signal) {
	inc := s.About.Incarnation
	judged := m.peers.view.Find(s.About)
	removed := judged != nil && judged.Removed
	if m.peers.written[inc] || !m.self.unkeyed.IsZero() || removed {
		return
	}
	x := membership.Suspicion{Node: s.About.Node, By: m.self.node.Node, Incarnation: inc,
		Watcher: m.self.node.Incarnation,
		Sign:    s.Sign, SilentMS: s.Silent.Milliseconds(), Never: s.Never}
	if m.requestAbout(slotSuspect, inc, action.Suspect{Suspicion: x, Me: m.self.node, Generation: m.generation()}) {
		m.peers.written[inc] = true
	}
}

// withdrawSuspicions takes back what this incarnation wrote and does not hold: the node answers
// again, or was dropped before the record came, or this process stood still and forgot. What the
// store shows decides, not what is remembered.
func (m *Machine) withdrawSuspicions() {
	p, snap, w := &m.peers, &m.seen.snap, m.seen.world
	maps.DeleteFunc(p.written, func(inc membership.Incarnation, _ bool) bool {
		_, held := p.suspected[inc]
		return !held && m.requests.busy[slot{slotSuspect, inc}] == 0
	})
	if !snap.Whole || w == nil || snap.Rev < w.Rev {
		return // what the newest Propose removed is not shown yet
	}
	for _, s := range snap.Suspects {
		inc := s.Incarnation
		if _, held := p.suspected[inc]; held || p.written[inc] || s.By != m.self.node.Node ||
			s.Watcher != m.self.node.Incarnation {
			continue
		}
		answers := p.evidence.Answers[inc].Kind == membership.Same
		m.requestAbout(slotWithdraw, inc,
			action.Withdraw{About: inc, Node: s.Node, By: s.By, Rev: s.Rev, Generation: w.Generation, Answers: answers})
	}
}

// predecessors are the nodes that this one watches, also those behind a node that refuses its
// dials.
func (m *Machine) predecessors() []membership.Ref {
	w := m.seen.world
	if w == nil || w.Phase.Ended() || len(w.Members) == 0 {
		return nil
	}
	ring := w.Members
	if w.Rank(m.self.node.Ref) < 0 { // a spare watches the last ones, behind the ranks
		ring = append(ring[:len(ring):len(ring)], m.self.node.Ref)
	}
	refused := func(r membership.Ref) bool {
		return m.peers.suspected[r.Incarnation].Sign == membership.ConnectionClosed
	}
	watched := membership.WatchTargets(ring, m.self.node.Ref, 2, refused)
	return slices.DeleteFunc(watched, func(r membership.Ref) bool { return r.Node == m.self.node.Node })
}

func sameRefs(a, b []membership.Ref) bool { return slices.EqualFunc(a, b, membership.Ref.Same) }
