package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

const (
	freeLosses      = 2                // of one node, before it is put into quarantine
	provenAfter     = time.Minute      // of running, or any progress, and no member is a newcomer any more
	firstQuarantine = 30 * time.Second // doubled with every further loss or failure
	longQuarantine  = 30 * time.Minute
	maxRecords      = 32  // of nodes that disturbed the job
	maxNewcomers    = 100 // that a world record lists
)

// quarantineFor is how long the n-th quarantine of a node lasts.
func quarantineFor(n int) rendezvous.Seconds {
	return rendezvous.Seconds(min(longQuarantine, firstQuarantine<<min(n-1, 10)))
}

// isNewcomer reports whether f happened on a member in its first generation.
func isNewcomer(w *rendezvous.World, f *rendezvous.Failure) bool {
	return slices.Contains(w.Newcomers, w.Rank(membership.Ref{Node: f.Node, Incarnation: f.Incarnation}))
}

// newcomers lists the node ranks of the members whose node was in no generation of this attempt which made
// progress. The members of an attempt's first world are none: no other could go on without them. A node
// whose agent was started again is the same node.
func newcomers(old *rendezvous.World, proven schema.Generation, members []membership.Ref) []int {
	before := map[string]bool{}
	for _, m := range old.Members {
		before[m.Node] = true
	}
	if proven != old.Generation {
		for _, rank := range old.Newcomers {
			delete(before, old.Members[rank].Node)
		}
	}
	var ranks []int
	for rank, m := range members {
		if !before[m.Node] && len(ranks) < maxNewcomers {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// editRecord changes the record of a node, or a new one.
func editRecord(records []rendezvous.NodeRecord, node string, edit func(*rendezvous.NodeRecord)) []rendezvous.NodeRecord {
	at, found := slices.BinarySearchFunc(records, node, func(r rendezvous.NodeRecord, node string) int { return cmp.Compare(r.Node, node) })
	records = slices.Clone(records)
	if !found {
		records = slices.Insert(records, at, rendezvous.NodeRecord{Node: node})
	}
	edit(&records[at])
	if len(records) > maxRecords {
		least := slices.MinFunc(records, func(a, b rendezvous.NodeRecord) int {
			return cmp.Or(cmp.Compare(a.Quarantine, b.Quarantine), cmp.Compare(a.Losses+a.Failures, b.Losses+b.Failures))
		})
		records = slices.DeleteFunc(records, func(r rendezvous.NodeRecord) bool { return r.Node == least.Node })
	}
	return records
}

// recordFailure puts the node of a failure in its first generation into quarantine.
func recordFailure(records []rendezvous.NodeRecord, w *rendezvous.World, e closing) []rendezvous.NodeRecord {
	f := e.failure
	return editRecord(records, f.Node, func(r *rendezvous.NodeRecord) {
		r.Failures++
		r.Program, r.Since, r.Ran, r.Time = e.program, w.Generation, 0, e.now
		r.Quarantine = quarantineFor(r.Failures)
		r.Text = fmt.Sprintf("%s in its first generation with the job", f)
		if e.stranger {
			r.Text += "; it runs another program than the job"
		}
	})
}

// recordLosses counts the members among lost, and puts those into quarantine that were lost too often.
func recordLosses(records []rendezvous.NodeRecord, w *rendezvous.World, lost []verdict.Member, now time.Time) []rendezvous.NodeRecord {
	members := rendezvous.NewRefSet(w.Members)
	for _, m := range lost {
		if !members.Has(m.Ref) || m.Reason == "not-ready" { // that has a quarantine of its own
			continue
		}
		records = editRecord(records, m.Node, func(r *rendezvous.NodeRecord) {
			r.Losses++
			r.Since, r.Ran = w.Generation, 0
			if n := r.Losses - freeLosses; n > 0 {
				r.Quarantine, r.Time = quarantineFor(n), now
				r.Text = fmt.Sprintf("it was lost %s", phrase.Count(r.Losses, "time"))
			}
		})
	}
	return records
}

// forgive adds the time that a generation ran to the records of its members, and deletes those that
// have behaved for long enough.
func forgive(records []rendezvous.NodeRecord, w *rendezvous.World, ran time.Duration) []rendezvous.NodeRecord {
	if len(records) == 0 || ran == 0 {
		return records
	}
	members := map[string]bool{}
	for _, m := range w.Members {
		members[m.Node] = true
	}
	var kept []rendezvous.NodeRecord
	for _, r := range records {
		if members[r.Node] {
			r.Ran += rendezvous.Seconds(ran)
		}
		if time.Duration(r.Ran) < refill {
			kept = append(kept, r)
		}
	}
	return kept
}

// admitMembers ends the quarantine of every member: a world has a node in quarantine only when there
// would be no world without it, or after its time.
func admitMembers(records []rendezvous.NodeRecord, members []membership.Ref) []rendezvous.NodeRecord {
	for _, m := range members {
		if slices.ContainsFunc(records, func(r rendezvous.NodeRecord) bool { return r.Node == m.Node && r.Quarantine > 0 }) {
			records = editRecord(records, m.Node, func(r *rendezvous.NodeRecord) { r.Quarantine, r.Text = 0, "" })
		}
	}
	return records
}

// keptOut says which nodes no plan has now. Without strict, nodes are let in that only disturb the
// others: that is better than no world at all.
func keptOut(s *rendezvous.Snapshot, strict bool) func(membership.Node) bool {
	if s.World == nil {
		return func(membership.Node) bool { return false }
	}
	out := map[string]rendezvous.NodeRecord{}
	thisAttempt := s.World.Attempt == s.Job.Attempt
	for _, r := range s.World.Ledger.Nodes {
		if thisAttempt && r.Quarantine > 0 && (strict || r.Failures > 0) && !admitted(s, r.Node, r.Since) {
			out[r.Node] = r
		}
	}
	late := map[string]bool{}
	for _, q := range s.World.Quarantine {
		if strict && q.Until > s.World.Generation && !admitted(s, q.Node, q.Until-1-schema.Generation(q.Times)) {
			late[q.Node] = true
		}
	}
	return func(n membership.Node) bool {
		r, kept := out[n.Node]
		return late[n.Node] || kept && (r.Program == "" || r.Program == n.Program) // another program is another try
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
			return fmt.Sprintf("%s is in quarantine for %s: %s", node, time.Duration(r.Quarantine), r.Text)
		}
	}
	return node + " is in quarantine"
}

// admitted reports whether the operator lifted the quarantine that node has since generation g.
func admitted(s *rendezvous.Snapshot, node string, g schema.Generation) bool {
	return slices.ContainsFunc(s.Wish.Admit, func(a rendezvous.Admit) bool { return a.Node == node && a.Generation >= g })
}

// KeptOut is a node in quarantine, with the reason.
type KeptOut struct {
	Node string
	Text string
	For  time.Duration // 0: until another generation
	Time time.Time     // when it began, for people; zero: not known
}

// Quarantined lists the registered nodes that are in quarantine, by name.
func Quarantined(s *rendezvous.Snapshot) (list []KeptOut) {
	if s.World == nil || s.Job == nil || s.World.Attempt != s.Job.Attempt {
		return nil
	}
	out := keptOut(s, true)
	for _, n := range s.Nodes {
		if !out(n) || s.World.Rank(n.Ref) >= 0 {
			continue
		}
		k := KeptOut{Node: n.Node, Text: "it held up a barrier"}
		for _, r := range s.World.Ledger.Nodes {
			if r.Node == n.Node && r.Quarantine > 0 {
				k.Text, k.For, k.Time = r.Text, time.Duration(r.Quarantine), r.Time
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

// noteQuarantines notes the quarantines that s shows. Each agent counts their time by its own clock,
// from when it first sees them: they may last longer for a planner that came late, never shorter.
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

// released is s without the quarantines whose time is over, and when the next one is: zero for none.
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
		w.Ledger.Nodes = editRecord(w.Ledger.Nodes, node, func(r *rendezvous.NodeRecord) { r.Quarantine, r.Text = 0, "" })
	}
	c := *s
	c.World = &w
	return &c, next
}
