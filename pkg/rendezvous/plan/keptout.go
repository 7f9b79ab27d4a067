package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/schema"
)

// demand says whether the next world needs the nodes in quarantine.
type demand int

const (
	dispensable demand = iota
	needed
)

// keptOut returns a function that reports whether no plan may have a node now.
//
// A node that was only lost often is taken at once where a world needs it. A node whose workers
// failed is not, before its time is over.
func keptOut(s *rendezvous.Snapshot, d demand) func(*membership.Node) bool {
	doubted := func(n *membership.Node) bool {
		return (n.Drained || n.Doubt != "" && d == dispensable && !member(s, n.Node)) && !trusted(s, n)
	}
	if w := s.World; w == nil || len(w.Ledger.Nodes)+len(w.Quarantine) == 0 {
		return doubted
	}
	out := map[string]bool{}
	thisAttempt := s.World.Attempt == s.Job.Attempt
	for _, r := range s.World.Ledger.Nodes {
		taken := d == needed && !r.Failing
		if thisAttempt && r.Quarantine > 0 && !taken && !admitted(s, r.Node, r.Since) {
			out[r.Node] = true
		}
	}
	late := map[string]bool{}
	for _, q := range s.World.Quarantine {
		if d == dispensable && q.Until > s.World.Generation &&
			!admitted(s, q.Node, q.Until-1-schema.Generation(q.Times)) {
			late[q.Node] = true
		}
	}
	return func(n *membership.Node) bool { return late[n.Node] || out[n.Node] || doubted(n) }
}

// member reports whether a node is in the World of the present attempt. A spare that a World needed
// stays in later ones.
func member(s *rendezvous.Snapshot, node string) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && slices.ContainsFunc(s.World.Members,
		func(m membership.Ref) bool { return m.Node == node })
}

// trusted reports whether the operator admitted this incarnation of a node.
func trusted(s *rendezvous.Snapshot, n *membership.Node) bool {
	return slices.ContainsFunc(s.Wish.Admit, func(a rendezvous.Admit) bool {
		return a.Node == n.Node && a.Incarnation == n.Incarnation
	})
}

// lateNodes returns the nodes that held up a barrier and are in no plan before a later generation.
func lateNodes(w *rendezvous.World) map[string]bool {
	late := map[string]bool{}
	for _, q := range w.Quarantine {
		if q.Until > w.Generation {
			late[q.Node] = true
		}
	}
	return late
}

// quarantineText says that a node was put into quarantine, and why.
func quarantineText(l rendezvous.Ledger, node string) string {
	for _, r := range l.Nodes {
		if r.Node == node && r.Quarantine > 0 {
			return r.InQuarantine()
		}
	}
	return node + " is in quarantine"
}

// admitted reports whether the operator lifted the quarantine that node got in generation g.
func admitted(s *rendezvous.Snapshot, node string, g schema.Generation) bool {
	return slices.ContainsFunc(s.Wish.Admit,
		func(a rendezvous.Admit) bool { return a.Node == node && a.Generation >= g })
}

// KeptOut is a node in quarantine, with the reason.
type KeptOut struct {
	Node string
	Text string
	For  time.Duration // 0: until a later generation
	Time time.Time     // when it began, for status; zero: not known
}

// Quarantined lists the registered nodes that are in quarantine, by name.
func Quarantined(s *rendezvous.Snapshot) (list []KeptOut) {
	if s.World == nil || s.Job == nil || s.World.Attempt != s.Job.Attempt {
		return nil
	}
	out := keptOut(s, dispensable)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !out(n) || s.World.Rank(n.Ref) >= 0 {
			continue
		}
		k := KeptOut{Node: n.Node, Text: cmp.Or(n.Doubt, "it held up a barrier")}
		for _, r := range s.World.Ledger.Nodes {
			if r.Node == n.Node && r.Quarantine > 0 {
				k.Text, k.For, k.Time = r.Text, time.Duration(r.Quarantine), r.Time
			}
		}
		list = append(list, k)
	}
	return list
}

// QuarantineOf returns the record that keeps n out of worlds after w, or nil. It does not consider
// later admissions.
func QuarantineOf(w *rendezvous.World, n membership.Node) *rendezvous.NodeRecord {
	if w.Attempt != n.Attempt {
		return nil
	}
	for i := range w.Ledger.Nodes {
		r := &w.Ledger.Nodes[i]
		if r.Node == n.Node && r.Quarantine > 0 {
			return r
		}
	}
	return nil
}

// observedQuarantine is a quarantine, and when this agent first saw it.
type observedQuarantine struct {
	node  string
	since schema.Generation
	lasts time.Duration
	at    time.Time
}

// noteQuarantines records the quarantines that s shows. Each agent counts their time by its own
// clock, from when it first saw them. So for an agent that started later they may last longer, but
// never shorter.
func (m *Observed) noteQuarantines(s *rendezvous.Snapshot, now time.Time) {
	var list []observedQuarantine
	if s.World != nil {
		for _, r := range s.World.Ledger.Nodes {
			if r.Quarantine == 0 {
				continue
			}
			q := observedQuarantine{r.Node, r.Since, time.Duration(r.Quarantine), now}
			for _, known := range m.quarantines {
				if known.node == q.node && known.since == q.since && known.lasts == q.lasts {
					q.at = known.at
				}
			}
			list = append(list, q)
		}
	}
	m.quarantines = list
}

// released returns s without the quarantines whose time has passed, and when the next one ends;
// zero: there is none.
func (m *Observed) released(s *rendezvous.Snapshot, now time.Time) (*rendezvous.Snapshot, time.Time) {
	var next time.Time
	var over []string
	for _, q := range m.quarantines {
		switch until := q.at.Add(q.lasts); {
		case !now.Before(until):
			over = append(over, q.node)
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	if len(over) == 0 || s.World == nil {
		return s, next
	}
	w := *s.World
	for _, node := range over {
		w.Ledger.Nodes = ledger.EditRecord(w.Ledger.Nodes, node, func(r *rendezvous.NodeRecord) {
			r.Quarantine, r.Failing, r.Text = 0, false, ""
		})
	}
	c := *s
	c.World = &w
	return &c, next
}
