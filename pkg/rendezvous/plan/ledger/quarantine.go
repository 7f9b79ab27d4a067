package ledger

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
	freeLosses      = 2                // losses of one node before it is put into quarantine
	provenAfter     = time.Minute      // after so long a run, or any progress, no member is a newcomer
	firstQuarantine = 30 * time.Second // doubled with every further loss or failure
	longQuarantine  = 30 * time.Minute
	maxRecords      = 32  // records of nodes that disturbed the job
	maxNewcomers    = 100 // newcomers that a world record lists
)

// quarantineFor is how long the n-th quarantine of a node lasts.
func quarantineFor(n int) rendezvous.Seconds {
	return rendezvous.Seconds(min(longQuarantine, firstQuarantine<<min(n-1, 10)))
}

// isNewcomer reports whether f is of a member in its first generation.
func isNewcomer(w *rendezvous.World, f *rendezvous.Failure) bool {
	return slices.Contains(w.Newcomers, w.Rank(membership.Ref{Node: f.Node, Incarnation: f.Incarnation}))
}

// Newcomers returns the node ranks of the members whose node has not yet been in a generation of
// this attempt that made progress. The members of an attempt's first world are no newcomers,
// because no other members could go on without them. A node whose agent was started again is the
// same node.
func Newcomers(old *rendezvous.World, proven schema.Generation, members []membership.Ref) []int {
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

// EditRecord changes the record of a node, and adds one if there is none.
func EditRecord(
	records []rendezvous.NodeRecord, node string, edit func(*rendezvous.NodeRecord),
) []rendezvous.NodeRecord {
	at, found := slices.BinarySearchFunc(records, node,
		func(r rendezvous.NodeRecord, node string) int { return cmp.Compare(r.Node, node) })
	records = slices.Clone(records)
	if !found {
		records = slices.Insert(records, at, rendezvous.NodeRecord{Node: node})
	}
	edit(&records[at])
	if len(records) > maxRecords {
		least := slices.MinFunc(records, func(a, b rendezvous.NodeRecord) int {
			return cmp.Or(cmp.Compare(a.Quarantine, b.Quarantine), cmp.Compare(a.Losses+a.Failures, b.Losses+
				b.Failures))
		})
		records = slices.DeleteFunc(records,
			func(r rendezvous.NodeRecord) bool { return r.Node == least.Node })
	}
	return records
}

// recordFailure puts the node of a failure into quarantine. It was in its first generation.
func recordFailure(records []rendezvous.NodeRecord, w *rendezvous.World, e Closing) []rendezvous.NodeRecord {
	f := e.Failure
	return EditRecord(records, f.Node, func(r *rendezvous.NodeRecord) {
		r.Failures++
		r.Program, r.Since, r.Ran, r.Time = e.Program, w.Generation, 0, e.Now
		r.Quarantine, r.UntilAdmitted = quarantineFor(r.Failures), true
		r.Text = fmt.Sprintf("%s in its first generation with the job", f)
		if e.Stranger {
			r.Text += "; it runs another program than the job"
		}
	})
}

// recordLosses counts the members among lost, and puts those into quarantine that were lost too
// often.
func recordLosses(
	records []rendezvous.NodeRecord, w *rendezvous.World, lost []verdict.Member, now time.Time,
) []rendezvous.NodeRecord {
	members := rendezvous.NewRefSet(w.Members)
	for _, m := range lost {
		if !members.Has(m.Ref) || m.Reason == "not-ready" { // these nodes are in World.Quarantine
			continue
		}
		records = EditRecord(records, m.Node, func(r *rendezvous.NodeRecord) {
			r.Losses++
			r.Since, r.Ran = w.Generation, 0
			if n := r.Losses - freeLosses; n > 0 {
				r.Quarantine, r.UntilAdmitted, r.Time = quarantineFor(n), false, now
				r.Text = fmt.Sprintf("it was lost %s", phrase.Count(r.Losses, "time"))
			}
		})
	}
	return records
}

// forgive adds the time that a generation ran to the records of its members. It deletes the records
// of members that did not disturb the job for long enough.
func forgive(
	records []rendezvous.NodeRecord, w *rendezvous.World, ran time.Duration,
) []rendezvous.NodeRecord {
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
		if time.Duration(r.Ran) < rendezvous.RefillAfter {
			kept = append(kept, r)
		}
	}
	return kept
}

// AdmitMembers ends the quarantine of every member. A member in quarantine is needed, or its
// quarantine is over.
func AdmitMembers(records []rendezvous.NodeRecord, members []membership.Ref) []rendezvous.NodeRecord {
	for _, m := range members {
		if slices.ContainsFunc(records, func(r rendezvous.NodeRecord) bool {
			return r.Node == m.Node && r.Quarantine > 0
		}) {
			records = EditRecord(records, m.Node, func(r *rendezvous.NodeRecord) {
				r.Quarantine, r.UntilAdmitted, r.Text = 0, false, ""
			})
		}
	}
	return records
}
