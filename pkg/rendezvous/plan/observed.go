package plan

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Observed has the times at which one agent first saw things, by its own monotonic clock. They only
// delay decisions: any of them may be too early or too late without harm.
type Observed struct {
	generation schema.Generation
	phase      rendezvous.Phase
	rev        int64
	nodes      int

	observed time.Time         // time of the newest observation
	others   []membership.Node // registered at that time, and no members; by name
	missing  []missingNode     // registered before, and no longer

	quarantines []observedQuarantine

	PhaseSince    time.Time // the world entered its phase
	RunningSince  time.Time // its generation began to run; zero: it never did
	StoppedAt     time.Time // its generation left running
	FailedAt      time.Time // its failure was recorded
	LastCallSince time.Time // the last call began: more nodes may still come, and no node restarts it
	SuspectSince  time.Time // since then some member has been suspect
	FirstSign     time.Time // since then some member has not been known to be alive
	ChangedAt     time.Time // the world record, or the number of nodes, changed last
}

// missingNode is a node that was no member, and whose registration ended without an announcement.
type missingNode struct {
	membership.Ref
	since time.Time
}

// gap is the longest pause between two observations. After a longer pause, the announcement of a
// node that left may have been written and deleted again.
const gap = 3 * time.Second

// Update records what s shows for the first time.
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
	m.noteMissing(s, v, now)
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

// noteMissing records the nodes that were no members and whose registration ended. It skips a node
// that left, that is registered again, or whose loss was reported. It also skips a node that became
// a member, because members are judged.
func (m *Observed) noteMissing(s *rendezvous.Snapshot, v verdict.View, now time.Time) {
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
