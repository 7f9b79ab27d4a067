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
	trainedAfter   = 30 * time.Second // where no step is reported, so long a run stands for one
	flapping       = time.Minute      // a node that is lost this soon after it came back is left out
	failedOut      = time.Minute      // first quarantine of a node whose workers failed
	lostOut        = 30 * time.Second // first quarantine of a node that was lost; both double
	longQuarantine = 30 * time.Minute
	maxRecords     = 32 // records of nodes that disturbed the job
)

// quarantineFor is how long a quarantine lasts, after the node was left out so many times.
func quarantineFor(first time.Duration, before int) rendezvous.Seconds {
	return rendezvous.Seconds(min(longQuarantine, first<<min(before, 10)))
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

// chargeNode charges the failure to its node. Failures are in a row while training does not get
// beyond the step at which the node failed before; without reported steps, until generations with
// the node ran for trainedAfter.
func chargeNode(w *rendezvous.World, l *rendezvous.Ledger, e Closing) []rendezvous.NodeRecord {
	return EditRecord(l.Nodes, e.Failure.Node, func(r *rendezvous.NodeRecord) {
		if beyond(e.Step, r.Step) || !l.Reports && time.Duration(r.Ran) >= trainedAfter {
			r.Row = 0
		}
		r.Row++
		r.Failures++
		r.Since, r.Ran, r.Step = w.Generation, 0, e.Step
	})
}

// leavesOut reports whether the job goes on without the node that was just charged. It does if the
// node failed twice in a row, or was left out before; and instead of failing, if the node made no
// step or used more than half of the budget. At most as many nodes are left out in a row as the job
// has restarts: if training gets no further without them, they are not the reason.
func leavesOut(w *rendezvous.World, l rendezvous.Ledger, rules rendezvous.Rules, e Closing) bool {
	r := *record(l.Nodes, e.Failure.Node)
	switch {
	case r.Outs == 0 && l.LeftOut >= rules.MaxRestarts:
		return false
	case r.Row > 1, r.Outs > 0:
		return true
	}
	return l.Used >= rules.MaxRestarts && (!e.trained(w) || 2*(r.Used+1) > l.Used+1)
}

// MostUnproven is the largest number of newcomers that are listed. So many are not all bad.
const MostUnproven = 32

// unproven reports whether only members failed that came later and made no step yet. The job trained
// without them, so it waits for other nodes where np needs one in their place.
func unproven(l rendezvous.Ledger, f *rendezvous.Failure) bool {
	is := func(node string) bool { return slices.Contains(l.Unproven, node) }
	return is(f.Node) && !slices.ContainsFunc(f.Others,
		func(o rendezvous.CollateralEnd) bool { return !o.Victim && !is(o.Node) })
}

// leaveOut puts the node of the failure into quarantine. The restarts that it used are given back.
func leaveOut(l *rendezvous.Ledger, e Closing) {
	l.Nodes = EditRecord(l.Nodes, e.Failure.Node, func(r *rendezvous.NodeRecord) {
		if r.Outs == 0 {
			l.LeftOut++
			l.LeftOutAt = e.Step
		}
		l.Used, r.Used = max(0, l.Used-r.Used), 0
		l.Charged = 0
		r.Quarantine, r.Failing, r.Time = quarantineFor(failedOut, r.Outs), true, e.Now
		r.Outs++
		r.Text = e.Failure.String()
		if r.Failures > 1 {
			r.Text += fmt.Sprintf(" (%d failures)", r.Failures)
		}
	})
}

// pardonNode takes back what a node was charged for generation g.
func pardonNode(records []rendezvous.NodeRecord, g schema.Generation) []rendezvous.NodeRecord {
	for _, r := range records {
		if r.Since == g && r.Used > 0 {
			return EditRecord(records, r.Node, func(r *rendezvous.NodeRecord) {
				r.Used, r.Failures, r.Row = r.Used-1, r.Failures-1, max(0, r.Row-1)
			})
		}
	}
	return records
}

// record returns the record of a node, or nil.
func record(records []rendezvous.NodeRecord, node string) *rendezvous.NodeRecord {
	for i := range records {
		if records[i].Node == node {
			return &records[i]
		}
	}
	return nil
}

// recordLosses counts the members among lost. A member that was lost before, and is lost again soon
// after it came back, is put into quarantine.
func recordLosses(
	records []rendezvous.NodeRecord, w *rendezvous.World, lost []verdict.Member, now time.Time,
) []rendezvous.NodeRecord {
	members := rendezvous.NewRefSet(w.Members)
	for _, m := range lost {
		if !members.Has(m.Ref) || m.Reason == "not-ready" { // these nodes are in World.Quarantine
			continue
		}
		records = EditRecord(records, m.Node, func(r *rendezvous.NodeRecord) {
			again := r.Losses > 0 && time.Duration(r.Ran) < flapping
			r.Losses++
			r.Since, r.Ran = w.Generation, 0
			if again {
				r.Quarantine, r.Failing, r.Time = quarantineFor(lostOut, r.Outs), false, now
				r.Outs++
				r.Text = fmt.Sprintf("it was lost again within a minute (%s)", phrase.Count(r.Losses, "time"))
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

// AdmitMembers ends the quarantine of every member: it is needed, or its time is over. The record of
// a member that the operator admitted is deleted.
func AdmitMembers(
	records []rendezvous.NodeRecord, members []membership.Ref, admitted func(*rendezvous.NodeRecord) bool,
) []rendezvous.NodeRecord {
	for _, m := range members {
		switch r := record(records, m.Node); {
		case r == nil || r.Quarantine == 0:
		case admitted(r):
			records = slices.DeleteFunc(slices.Clone(records),
				func(r rendezvous.NodeRecord) bool { return r.Node == m.Node })
		default:
			records = EditRecord(records, m.Node, func(r *rendezvous.NodeRecord) {
				r.Quarantine, r.Failing, r.Text = 0, false, ""
			})
		}
	}
	return records
}
