package machine

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// detect sets whom this node watches, and tells the others whom
// it suspects.
func (m *Machine) detect(now time.Time, a *actions) {
	if !m.in {
		return
	}
	if refs := m.predecessors(); !sameRefs(refs, m.watched) {
		m.watched = refs
		a.do("", WatchNodes{refs})
	}
	hello := Hello{UID: m.job.UID, Node: m.me.Node, Incarnation: m.me.Incarnation}
	if m.world != nil {
		hello.Generation = m.world.Generation
	}
	if c := m.crew; c != nil {
		hello.Failed = c.failed != nil
		hello.Ended = c.dead
	}
	for inc, s := range m.mine {
		if !slices.ContainsFunc(m.watched, s.About.Same) { // nobody tells this node any more whether it answers again
			delete(m.mine, inc)
			continue
		}
		hello.Suspects = append(hello.Suspects, s.About)
		seen := m.view.Find(s.About)
		removed := seen != nil && seen.Removed // it left, or is replaced: that its connection closed is no news
		if !m.written[inc] && m.lapsed.IsZero() && !removed {
			if m.request(a, now, "suspect/"+string(inc), Suspect{Suspicion: membership.Suspicion{Node: s.About.Node, By: m.me.Node,
				Incarnation: inc, Watcher: m.me.Incarnation, Sign: s.Sign, SilentMS: s.Silent.Milliseconds(), Never: s.Never},
				Me: m.me, Generation: m.world.Generation}) {
				m.written[inc] = true
			}
		}
	}
	m.clear(now, a)
	slices.SortFunc(hello.Suspects, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	if !reflect.DeepEqual(hello, m.hello) {
		m.hello = hello
		a.do("", SayHello{hello})
	}
}

// clear takes back what this life of this node wrote and does not hold: the node answers again, or was dropped
// before the record came, or this process stood still and forgot. What is shown decides, not what is remembered.
func (m *Machine) clear(now time.Time, a *actions) {
	for inc := range m.written {
		if _, held := m.mine[inc]; !held && m.busy["suspect/"+string(inc)] == 0 {
			delete(m.written, inc)
		}
	}
	if !m.snap.Whole || m.world == nil || m.snap.Rev < m.world.Rev {
		return // what the newest Propose took is not shown yet
	}
	for _, s := range m.snap.Suspects {
		inc := s.Incarnation
		if _, held := m.mine[inc]; held || m.written[inc] || s.By != m.me.Node || s.Watcher != m.me.Incarnation {
			continue
		}
		answers := m.evidence.Answers[inc].Kind == membership.Same
		m.request(a, now, "clear/"+string(inc), Clear{About: inc, Node: s.Node, By: s.By, Rev: s.Rev, Generation: m.world.Generation, Answers: answers})
	}
}

// owes reports whether a suspicion that this life wrote may still be in the store: it has to take it back.
func (m *Machine) owes() bool {
	if m.wrote > 0 && m.snap.Whole && m.snap.Rev >= m.wrote && !slices.ContainsFunc(m.snap.Suspects, func(s membership.Suspicion) bool {
		return s.By == m.me.Node && s.Watcher == m.me.Incarnation
	}) {
		m.wrote = 0
	}
	return m.wrote > 0
}

// predecessors are the nodes that this one watches, also behind those that it found refusing.
func (m *Machine) predecessors() []membership.Ref {
	w := m.world
	if w == nil || w.Phase.Ended() || len(w.Members) == 0 {
		return nil
	}
	ring := w.Members
	if w.Rank(m.me.Ref) < 0 { // a spare watches the last ones, behind the ranks
		ring = append(ring[:len(ring):len(ring)], m.me.Ref)
	}
	refused := func(r membership.Ref) bool { return m.mine[r.Incarnation].Sign == membership.ConnectionClosed }
	return slices.DeleteFunc(membership.Watches(ring, m.me.Ref, 2, refused), func(r membership.Ref) bool { return r.Node == m.me.Node })
}

func sameRefs(a, b []membership.Ref) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Same(b[i]) {
			return false
		}
	}
	return true
}
