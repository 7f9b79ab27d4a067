package plan

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/schema"
)

// demand says whether there can be a world without the nodes in quarantine.
type demand int

const (
	dispensable demand = iota
	needed
)

// keptOut says which nodes no plan has now. Where they are dispensable, a node whose workers failed
// stays out until it runs another program or is admitted. Where they are needed, such a node is
// tried again after its time, and one that only disturbs the others at once: that is better than no
// world.
func keptOut(s *rendezvous.Snapshot, d demand) func(*membership.Node) bool {
	if w := s.World; w == nil || len(w.Ledger.Nodes)+len(w.Quarantine) == 0 {
		return func(*membership.Node) bool { return false }
	}
	out := map[string]rendezvous.NodeRecord{}
	thisAttempt := s.World.Attempt == s.Job.Attempt
	for _, r := range s.World.Ledger.Nodes {
		taken := d == needed && (!r.UntilAdmitted || r.Over)
		if thisAttempt && r.Quarantine > 0 && !taken && !admitted(s, r.Node, r.Since) {
			out[r.Node] = r
		}
	}
	late := map[string]bool{}
	for _, q := range s.World.Quarantine {
		if d == dispensable && q.Until > s.World.Generation &&
			!admitted(s, q.Node, q.Until-1-schema.Generation(q.Times)) {
			late[q.Node] = true
		}
	}
	return func(n *membership.Node) bool {
		r, kept := out[n.Node]
		// another program is another try
		return late[n.Node] || kept && (r.Program == "" || r.Program == n.Program)
	}
}

// lateNodes are the nodes that held up a barrier, and are in no plan before another generation.
func lateNodes(w *rendezvous.World) map[string]bool {
	late := map[string]bool{}
	for _, q := range w.Quarantine {
		if q.Until > w.Generation {
			late[q.Node] = true
		}
	}
	return late
}

// quarantineText says in words that a node was put into quarantine.
func quarantineText(l rendezvous.Ledger, node string) string {
	for _, r := range l.Nodes {
		if r.Node == node && r.Quarantine > 0 {
			return r.InQuarantine()
		}
	}
	return node + " is in quarantine"
}

// admitted reports whether the operator lifted the quarantine that node has since generation g.
func admitted(s *rendezvous.Snapshot, node string, g schema.Generation) bool {
	return slices.ContainsFunc(s.Wish.Admit,
		func(a rendezvous.Admit) bool { return a.Node == node && a.Generation >= g })
}

// KeptOut is a node in quarantine, with the reason.
type KeptOut struct {
	Node string
	Text string
	// UntilAdmitted: only another program, or the operator, lets it into a world that can do
	// without it.
	UntilAdmitted bool
	For           time.Duration // otherwise; 0: until another generation
	Time          time.Time     // when it began, for people; zero: not known
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
		k := KeptOut{Node: n.Node, Text: "it held up a barrier"}
		for _, r := range s.World.Ledger.Nodes {
			if r.Node == n.Node && r.Quarantine > 0 {
				k.Text, k.UntilAdmitted = r.Text, r.UntilAdmitted
				k.For, k.Time = time.Duration(r.Quarantine), r.Time
			}
		}
		list = append(list, k)
	}
	return list
}

// QuarantineOf is the record that keeps n out of worlds after w, or nil. It does not know what the
// operator admitted since.
func QuarantineOf(w *rendezvous.World, n membership.Node) *rendezvous.NodeRecord {
	if w.Attempt != n.Attempt {
		return nil
	}
	for i := range w.Ledger.Nodes {
		r := &w.Ledger.Nodes[i]
		if r.Node == n.Node && r.Quarantine > 0 && (r.Program == "" || r.Program == n.Program) {
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

// noteQuarantines notes the quarantines that s shows. Each agent counts their time by its own
// clock, from when it first sees them: they may last longer for a planner that came late, never
// shorter.
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

// released returns s without the quarantines whose time is over; those that an admission must end
// are noted as over. It also returns when the next one is over: zero for none.
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
			if r.Over = true; !r.UntilAdmitted {
				r.Quarantine, r.Text = 0, ""
			}
		})
	}
	c := *s
	c.World = &w
	return &c, next
}
