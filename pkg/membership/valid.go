package membership

import (
	"strings"

	"github.com/elasticd/elastic/pkg/schema"
)

// MaxSlots bounds the workers of one node, far beyond any real one.
const MaxSlots = 1 << 14

// Validate checks a reference to a node, of which only the name may be known.
func (r Ref) Validate() error {
	var p schema.Problems
	p.Name("node", r.Node)
	p.Optional("incarnation", string(r.Incarnation))
	p.Address("address", r.Address)
	return p.Err()
}

// ValidateMember checks a reference to one incarnation of a node. Without an incarnation, any
// registered one would count as its replacement.
func (r Ref) ValidateMember() error {
	var p schema.Problems
	p.Note(r.Validate())
	p.Text("role", r.Role)
	p.Check(!strings.ContainsRune(r.Role, '\n'), "node %s: its role has several lines", r.Node)
	if r.Incarnation == "" {
		p.Check(false, "node %s has no incarnation", r.Node)
	}
	return p.Err()
}

// Validate checks a registration.
func (n *Node) Validate() error {
	var p schema.Problems
	p.Note(n.ValidateMember())
	p.Range("attempt", int64(n.Attempt), 0, 1<<31)
	p.Range("slots", int64(n.Slots), 0, MaxSlots)
	p.Generation("seen", n.LastGeneration)
	p.Text("host", n.Host)
	p.Text("machine", n.Machine)
	return p.Err()
}

// Validate checks the announcement of a node that left.
func (l *Left) Validate() error {
	var p schema.Problems
	p.Name("incarnation", string(l.Incarnation))
	p.Text("reason", string(l.Reason))
	return p.Err()
}

// Validate checks a suspicion.
func (s *Suspicion) Validate() error {
	var p schema.Problems
	p.Name("incarnation", string(s.Incarnation))
	p.Name("watcher", string(s.Watcher))
	p.Text("sign", string(s.Sign))
	p.Range("silent_ms", s.SilentMS, 0, 1<<53)
	return p.Err()
}
