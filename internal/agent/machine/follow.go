package machine

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
)

const (
	// Few is the number of nodes up to which every node follows everything.
	Few = 8
	// lookFor is the longest time that an ordinary node follows everything.
	lookFor = 3 * time.Second
)

// follow sets the scope that this agent follows. The few nodes that plan, and those with a
// suspicion in the store, follow everything. The others follow the World and their own
// registration, and everything for a moment now and then.
func (m *Machine) follow() {
	scope := follow.ScopeAll
	if n := m.size(); n > Few && !m.peers.OwesRecords(m.peerFacts()) && !m.isAmong(deputies) {
		scope = m.ownScope(n)
	}
	if m.keeper.scope == nil || *m.keeper.scope != scope {
		m.keeper.scope = &scope
		if scope == follow.ScopeOwn {
			m.seen.snap.Whole = false
		}
		m.out.Do(message.Follow{Scope: scope})
	}
}

// size is the number of nodes of the job, as far as this one knows.
func (m *Machine) size() int {
	n := m.keeper.nodes
	if w := m.seen.world; w != nil {
		n = max(n, w.Count)
	}
	return n
}

// ownScope is ScopeOwn. In a job of n nodes, registered or allowed, it is ScopeAll for a moment
// every n seconds.
func (m *Machine) ownScope(n int) follow.Scope {
	if !m.now.After(m.keeper.lookAgain) {
		return follow.ScopeOwn
	}
	if !m.now.After(m.keeper.lookAgain.Add(lookFor)) {
		return follow.ScopeAll
	}
	every := time.Duration(max(n, m.self.job.Limits.Max, 30)) * time.Second
	m.keeper.lookAgain = m.now.Add(every + m.jitter(every))
	return follow.ScopeOwn
}

// isAmong reports whether this node is one of the first k by rank or, before there is a World, by
// name.
func (m *Machine) isAmong(k int) bool {
	if w := m.seen.world; w != nil && !w.Phase.Ended() && len(w.Members) > 0 {
		r := m.seat().rank
		return r >= 0 && r < k
	}
	return m.keeper.before < k
}

// countNodes records the number of registered nodes, and how many of them have a lower name.
func (m *Machine) countNodes(nodes []membership.Node) {
	k := &m.keeper
	k.nodes = len(nodes)
	k.before = max(0, slices.IndexFunc(nodes, func(n membership.Node) bool {
		return n.Incarnation == m.self.node.Incarnation
	}))
}
