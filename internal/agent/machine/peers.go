package machine

import (
	"reflect"

	"github.com/elasticd/elastic/internal/agent/message"
)

// peerFacts returns the inputs of detection.
func (m *Machine) peerFacts() *Sight {
	return &Sight{Now: m.now, Self: m.self.node, Joined: m.self.joined,
		Registered: m.self.unkeyed.IsZero(), Snapshot: &m.seen.snap, World: m.seen.world}
}

// judge derives the verdict on each node.
func (m *Machine) judge() {
	m.peers.Judge(m.peerFacts())
	if m.self.joined && m.seen.snap.Whole {
		m.keeper.marks.Update(&m.seen.snap, m.peers.View, m.now)
	}
}

// watchPeers watches other nodes, and answers them.
func (m *Machine) watchPeers() {
	if !m.self.joined || m.over != nil {
		return
	}
	m.peers.Watch(m.peerFacts(), m.out)
	m.peers.AnswerSuspicions(m.peerFacts(), m.out)
	if hello := m.hello(); !reflect.DeepEqual(hello, m.said) {
		m.said = hello
		m.out.Do(message.SayHello{Hello: hello})
	}
}

// hello returns what this agent answers to its peers now.
func (m *Machine) hello() message.Hello {
	h := message.Hello{Node: m.self.node.Node, Incarnation: m.self.node.Incarnation,
		Generation: m.generation(), Stays: m.workers.Stay(), Suspects: m.peers.Suspects(),
		Knows: m.knowledge()}
	if g := m.workers.Group; g != nil && !g.First {
		h.Failed = len(g.Failures) > 0
		h.Ended = g.Dead
	}
	return h
}
