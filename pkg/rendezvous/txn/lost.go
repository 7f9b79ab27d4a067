package txn

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// failureEvent reports the failure that ended generation g.
func failureEvent(g schema.Generation, t *plan.ReportedFailure) history.Event {
	f := history.Fields{"rank": t.Rank, "local_rank": t.LocalRank, "exit_code": t.Code, "signal": nil,
		"hang": t.Hang, "collateral": t.Collateral, "spent": t.Spent, "message": t.Message,
		"detail": t.Detail,
		"others": append([]rendezvous.CollateralEnd{}, t.Others...)}
	if t.Signal != "" {
		f["exit_code"], f["signal"] = nil, t.Signal
	}
	return history.Event{Kind: history.WorkerFailed, Generation: g, Node: t.Node,
		Text: t.Failure.String(), Fields: f}
}

// isLost returns the guards that the registration of x, or its absence, is as it was when x was judged.
// If the evidence is that x did not answer in the store, they also compare that it still has not.
func (r Requests) isLost(x verdict.Member, judge membership.Node) []store.Guard {
	guards := []store.Guard{store.Unchanged(r.Job.Node(x.Node), x.Rev)}
	if x.Record != 0 {
		guards = append(guards, store.Unchanged(r.Job.Suspect(x.Node, judge.Node), x.Record))
	}
	return guards
}

// lostEvents report losses that judge found. g is the generation at that time.
func lostEvents(g schema.Generation, judge string, lost []verdict.Member) []history.Event {
	var events []history.Event
	for _, x := range lost {
		reason, why := x.Reason, x.Why
		if reason == "" {
			reason, why = "lease-expired", "lease expired"
		}
		by := x.By
		if len(by) == 0 { // the dial of the judge was enough
			by = []string{judge}
		}
		events = append(events, history.Event{Kind: history.NodeLost, Generation: g, Node: x.Node,
			Text:   fmt.Sprintf("%s was lost (%s)", x.Node, why),
			Fields: history.Fields{"reason": reason, "confirmed_by": by, "after_ms": x.After.Milliseconds()}})
	}
	return events
}

// ReportLost reports lost nodes that were no members. It reports each once, and only while it is
// still lost.
func (r Requests) ReportLost(
	ctx context.Context, seen *rendezvous.Snapshot, me membership.Node, step plan.ReportLost,
) error {
	g, worldRev := worldOf(seen)
	left := map[string]int64{}
	for _, l := range seen.Left {
		left[l.Node] = l.Rev
	}
	req := store.Request{If: []store.Guard{store.Unchanged(r.Job.World(), worldRev),
		store.Unchanged(r.Job.Node(me.Node), me.Rev)}}
	for i, event := range lostEvents(g, me.Node, step.Lost) {
		x := step.Lost[i]
		key := r.Job.Event(rendezvous.MissedEvent + string(x.Incarnation))
		req.If = append(req.If, store.Absent(key), store.Absent(r.Job.Node(x.Node)),
			store.Unchanged(r.Job.Left(x.Node), left[x.Node]))
		w := history.Tell(r.Job, event)
		w.Key = key
		req.Then = append(req.Then, w)
	}
	_, err := r.sendOn(ctx, r.fence(seen), "report lost nodes", req)
	return err
}
