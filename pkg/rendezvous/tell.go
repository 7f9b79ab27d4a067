package rendezvous

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Seat is a node's place in a world.
type Seat struct {
	NodeRank int    `json:"node_rank"`
	Node     string `json:"node"`
	Ranks    []int  `json:"ranks"`
}

// Layout is the world as people and scripts see it, by node rank.
func (w *World) Layout() []Seat {
	seats := []Seat{}
	for i, m := range w.Members {
		s := Seat{NodeRank: i, Node: m.Node}
		for k := range w.Slots {
			s.Ranks = append(s.Ranks, i*w.Slots+k)
		}
		seats = append(seats, s)
	}
	return seats
}

func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (t Told) event(g schema.Generation) history.Event {
	f := history.Fields{"rank": t.Rank, "local_rank": t.LocalRank, "exit_code": t.Code, "signal": nil,
		"collateral": t.Collateral, "spent": t.Spent, "message": t.Message}
	if t.Signal != "" {
		f["exit_code"], f["signal"] = nil, t.Signal
	}
	return history.Event{Kind: history.WorkerFailed, Generation: g, Node: t.Node, Text: t.Failure.String(), Fields: f}
}

func lostEvents(g schema.Generation, judge string, lost []membership.Seen) []history.Event {
	var events []history.Event
	for _, x := range lost {
		reason, why := x.Reason, x.Why
		if reason == "" {
			reason, why = "lease-expired", "lease expired"
		}
		by := x.By
		if len(by) == 0 { // its own dial was enough
			by = []string{judge}
		}
		events = append(events, history.Event{Kind: history.NodeLost, Generation: g, Node: x.Node,
			Text:   fmt.Sprintf("%s was lost (%s)", x.Node, why),
			Fields: history.Fields{"reason": reason, "confirmed_by": by, "after_ms": x.After.Milliseconds()}})
	}
	return events
}

// missed is how the ids of events begin that tell of lost nodes that were no members: the incarnation follows. So the event
// is its own record that it was told.
const missed = "missed-"

// maxTold leaves room for the guards of each.
const maxTold = (store.MaxOps - 3) / 3

// Tell says of nodes that were no members that they are lost: once, by whomever, and only while it is true.
func (r Requests) Tell(ctx context.Context, seen *Snapshot, me membership.Node, step Tell) error {
	var g schema.Generation
	var worldRev int64
	if seen.World != nil {
		g, worldRev = seen.World.Generation, seen.World.Rev
	}
	left := map[string]int64{}
	for _, l := range seen.Left {
		left[l.Node] = l.Rev
	}
	req := store.Request{If: []store.Guard{store.Unchanged(r.Job.World(), worldRev), store.Unchanged(r.Job.Node(me.Node), me.Rev)}}
	for i, event := range lostEvents(g, me.Node, step.Lost) {
		x := step.Lost[i]
		key := r.Job.Event(missed + string(x.Incarnation))
		req.If = append(req.If, store.Absent(key), store.Absent(r.Job.Node(x.Node)), store.Unchanged(r.Job.Left(x.Node), left[x.Node]))
		w := history.Tell(r.Job, event)
		w.Key = key
		req.Then = append(req.Then, w)
	}
	_, err := r.sendOn(ctx, seen.Job.UID, seen.Fence, "tell who is lost", req)
	return err
}
