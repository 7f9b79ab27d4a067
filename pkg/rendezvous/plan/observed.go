package plan

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Observed are the moments at which one agent first saw things, by its own monotonic clock. They
// only delay decisions: every one may be too early or too late without harm.
type Observed struct {
	generation schema.Generation
	phase      rendezvous.Phase
	rev        int64
	nodes      int

	observed time.Time         // the last time
	others   []membership.Node // registered then and no members, in the order of names
	missing  []missingNode     // registered before, and not any more

	quarantines []observedQuarantine

	PhaseSince    time.Time // the world entered its phase
	RunningSince  time.Time // its generation began to run; zero: it never did
	StoppedAt     time.Time // and left running
	FailedAt      time.Time // its failure was recorded
	LastCallSince time.Time // the last call began: enough nodes, fewer than wished, no node restarts it
	SuspectSince  time.Time // a member was suspected, and some member has been ever since
	FirstSign     time.Time // a member was not known to be alive, and some member has not been ever since
	ChangedAt     time.Time // the world record, or the number of nodes, changed last
}

// missingNode is a node that was no member, and whose registration ended unannounced.
type missingNode struct {
	membership.Ref
	since time.Time
}

// gap is the longest pause between two observations. After a longer one, a node that is away may
// have announced its departure in the meantime.
const gap = 3 * time.Second

// Update notes what s shows for the first time.
func (m *Observed) Update(s *rendezvous.Snapshot, v verdict.View, now time.Time) {
	var g schema.Generation
	var phase rendezvous.Phase
	var rev int64
	if s.World != nil {
		g, phase, rev = s.World.Generation, s.World.Phase, s.World.Rev
	}
	if g != m.generation {
		*m = Observed{generation: g, nodes: m.nodes, observed: m.observed, others: m.others,
			missing: m.missing, quarantines: m.quarantines,
			SuspectSince: m.SuspectSince, FirstSign: m.FirstSign}
	}
	if phase != m.phase {
		switch {
		case phase == rendezvous.Running:
			m.RunningSince = now
		case m.phase == rendezvous.Running:
			m.StoppedAt = now
		}
		m.phase, m.PhaseSince = phase, now
	}
	if s.Failure != nil && m.FailedAt.IsZero() {
		m.FailedAt = now
	}
	if rev != m.rev || len(s.Nodes) != m.nodes {
		m.rev, m.nodes, m.ChangedAt = rev, len(s.Nodes), now
	}
	doubt := slices.ContainsFunc(v.Members, func(x verdict.Member) bool { return x.State == verdict.Suspect })
	switch all := !slices.ContainsFunc(v.Members,
		func(x verdict.Member) bool { return x.State != verdict.Alive }); {
	case all:
		m.FirstSign = time.Time{}
	case m.FirstSign.IsZero():
		m.FirstSign = now
	}
	switch {
	case !doubt:
		m.SuspectSince = time.Time{}
	case m.SuspectSince.IsZero():
		m.SuspectSince = now
	}
	m.miss(s, v, now)
	m.noteQuarantines(s, now)
	if s.Job == nil {
		return
	}
	have := Present(s, v)
	enough := have >= s.Least()
	if phase == rendezvous.Running || phase == rendezvous.Forming {
		enough = have > s.World.Count
	}
	switch {
	case !enough || have >= s.Target(have):
		m.LastCallSince = time.Time{}
	case m.LastCallSince.IsZero():
		m.LastCallSince = now
	}
}

// miss notes the nodes that are no members and are not registered any more. A node that left, that
// is back as another life or that was reported lost is not missed; one that became a member is
// judged.
func (m *Observed) miss(s *rendezvous.Snapshot, v verdict.View, now time.Time) {
	if now.Sub(m.observed) > gap {
		m.others, m.missing = nil, nil
	}
	i := 0
	for _, o := range m.others {
		for i < len(s.Nodes) && s.Nodes[i].Node < o.Node {
			i++
		}
		if i == len(s.Nodes) || s.Nodes[i].Node != o.Node {
			m.missing = append(m.missing, missingNode{o.Ref, now})
		}
	}
	m.missing = slices.DeleteFunc(m.missing, func(x missingNode) bool {
		return s.Node(x.Node) != nil || s.Missed[x.Incarnation] || v.Find(x.Ref) != nil ||
			slices.ContainsFunc(s.Left,
				func(l membership.Left) bool { return l.Node == x.Node && l.Incarnation == x.Incarnation })
	})
	m.others, m.observed = v.Others, now
}

// ran is how long the generation ran.
func (m *Observed) ran(now time.Time) time.Duration {
	switch {
	case m.RunningSince.IsZero():
		return 0
	case m.StoppedAt.IsZero():
		return max(1, now.Sub(m.RunningSince))
	}
	return max(1, m.StoppedAt.Sub(m.RunningSince))
}
