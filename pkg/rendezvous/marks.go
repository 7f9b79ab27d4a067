package rendezvous

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Marks are the moments at which one agent first saw things, by its own monotonic clock. They
// only delay decisions: every one may be too early or too late without harm.
type Marks struct {
	generation schema.Generation
	phase      Phase
	rev        int64
	nodes      int

	observed time.Time         // the last time
	others   []membership.Node // who was registered then and is no member, in the order of names
	missing  []missing         // who was, and is not any more

	Phase  time.Time // the world entered its phase
	Ran    time.Time // its generation began to run; zero: it never did
	Ended  time.Time // and left running
	Failed time.Time // its failure was recorded
	Call   time.Time // the last call began: enough nodes, fewer than wished, restarted by nobody
	Doubt  time.Time // a member was suspected, and some member has been ever since
	Sign   time.Time // a member was not known to be alive, and some member has not been ever since
	Moved  time.Time // the world record, or the number of nodes, changed last
}

// missing is a node that was no member, and whose registration ended without a word.
type missing struct {
	membership.Ref
	since time.Time
}

// gap is how long nothing may be observed: after more, who is not there may have said good-bye meanwhile.
const gap = 3 * time.Second

// Observe notes what s shows for the first time.
func (m *Marks) Observe(s *Snapshot, v membership.View, now time.Time) {
	var g schema.Generation
	var phase Phase
	var rev int64
	if s.World != nil {
		g, phase, rev = s.World.Generation, s.World.Phase, s.World.Rev
	}
	if g != m.generation {
		*m = Marks{generation: g, nodes: m.nodes, observed: m.observed, others: m.others, missing: m.missing, Doubt: m.Doubt, Sign: m.Sign}
	}
	if phase != m.phase {
		switch {
		case phase == Running:
			m.Ran = now
		case m.phase == Running:
			m.Ended = now
		}
		m.phase, m.Phase = phase, now
	}
	if s.Failure != nil && m.Failed.IsZero() {
		m.Failed = now
	}
	if rev != m.rev || len(s.Nodes) != m.nodes {
		m.rev, m.nodes, m.Moved = rev, len(s.Nodes), now
	}
	doubt := slices.ContainsFunc(v.Members, func(x membership.Seen) bool { return x.State == membership.Suspect })
	switch all := !slices.ContainsFunc(v.Members, func(x membership.Seen) bool { return x.State != membership.Alive }); {
	case all:
		m.Sign = time.Time{}
	case m.Sign.IsZero():
		m.Sign = now
	}
	switch {
	case !doubt:
		m.Doubt = time.Time{}
	case m.Doubt.IsZero():
		m.Doubt = now
	}
	m.miss(s, v, now)
	if s.Job == nil {
		return
	}
	have := len(candidates(s, v))
	enough := have >= s.least()
	if phase == Running || phase == Forming {
		enough = have > s.World.Count
	}
	switch {
	case !enough || have >= s.target():
		m.Call = time.Time{}
	case m.Call.IsZero():
		m.Call = now
	}
}

// miss notes who of those who are no members is not registered any more. Who left, who is back as another life and who
// was told lost is not missed; who became a member is judged.
func (m *Marks) miss(s *Snapshot, v membership.View, now time.Time) {
	if now.Sub(m.observed) > gap {
		m.others, m.missing = nil, nil
	}
	i := 0
	for _, o := range m.others {
		for i < len(s.Nodes) && s.Nodes[i].Node < o.Node {
			i++
		}
		if i == len(s.Nodes) || s.Nodes[i].Node != o.Node {
			m.missing = append(m.missing, missing{o.Ref, now})
		}
	}
	m.missing = slices.DeleteFunc(m.missing, func(x missing) bool {
		return s.Node(x.Node) != nil || s.Missed[x.Incarnation] || v.Find(x.Ref) != nil ||
			slices.ContainsFunc(s.Left, func(l membership.Left) bool { return l.Node == x.Node && l.Incarnation == x.Incarnation })
	})
	m.others, m.observed = v.Others, now
}

// ran is how long the generation ran.
func (m *Marks) ran(now time.Time) time.Duration {
	switch {
	case m.Ran.IsZero():
		return 0
	case m.Ended.IsZero():
		return max(1, now.Sub(m.Ran))
	}
	return max(1, m.Ended.Sub(m.Ran))
}
