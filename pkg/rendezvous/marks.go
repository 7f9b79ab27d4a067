package rendezvous

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/pkg/membership"
)

// Marks are the moments at which one agent first saw things, by its own monotonic clock. They
// only delay decisions: every one may be too early or too late without harm.
type Marks struct {
	generation keys.Generation
	phase      Phase
	rev        int64
	nodes      int

	Phase  time.Time // the world entered its phase
	Ran    time.Time // its generation began to run; zero: it never did
	Ended  time.Time // and left running
	Failed time.Time // its failure was recorded
	Call   time.Time // the last call began: enough nodes, fewer than wished, restarted by nobody
	Doubt  time.Time // a member was suspected, and some member has been ever since
	Sign   time.Time // a member was not known to be alive, and some member has not been ever since
	Moved  time.Time // the world record, or the number of nodes, changed last
}

// Observe notes what s shows for the first time.
func (m *Marks) Observe(s *Snapshot, v membership.View, now time.Time) {
	var g keys.Generation
	var phase Phase
	var rev int64
	if s.World != nil {
		g, phase, rev = s.World.Generation, s.World.Phase, s.World.Rev
	}
	if g != m.generation {
		*m = Marks{generation: g, nodes: m.nodes, Doubt: m.Doubt, Sign: m.Sign}
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
	if s.Job == nil {
		return
	}
	have := len(candidates(s, v))
	enough := have >= s.least()
	if phase == Running {
		enough = have > s.World.Count
	}
	switch {
	case !enough || have >= s.target():
		m.Call = time.Time{}
	case m.Call.IsZero():
		m.Call = now
	}
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
