package txn

import (
	"context"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// quarantineEvents returns the events of nodes that l newly puts into quarantine.
func quarantineEvents(seen *rendezvous.Snapshot, l rendezvous.Ledger) []history.Event {
	var events []history.Event
	for _, r := range newlyOut(seen, l) {
		lasts := time.Duration(r.Quarantine)
		events = append(events, history.Event{Kind: history.Quarantined, Generation: r.Since, Node: r.Node,
			Text: r.InQuarantine(),
			Fields: history.Fields{"seconds": lasts.Seconds(),
				"losses": r.Losses, "failures": r.Failures, "reason": r.Text}})
	}
	return events
}

// maxAdmits is the number of admissions that the wish keeps: the newest ones.
const maxAdmits = 32

// Admit lifts the quarantine of a node, and takes back that it was asked to go. It keeps the request id
// of the wish, because it is no cause for a new World.
func (r Requests) Admit(ctx context.Context, seen *rendezvous.Snapshot, node string) error {
	w := seen.Wish
	w.Time = time.Now()
	w.Drain = slices.DeleteFunc(slices.Clone(w.Drain), func(n string) bool { return n == node })
	w.Admit = slices.DeleteFunc(slices.Clone(w.Admit),
		func(a rendezvous.Admit) bool { return a.Node == node })
	a := rendezvous.Admit{Node: node, Generation: seen.Fence}
	if n := seen.Node(node); n != nil {
		a.Incarnation = n.Incarnation
	}
	w.Admit = append(w.Admit, a)
	w.Admit = w.Admit[max(0, len(w.Admit)-maxAdmits):]
	_, err := r.sendOn(ctx, r.fence(seen), "admit "+node, store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Wish(), seen.Wish.Rev)},
		Then: []store.Write{
			store.Put(r.Job.Wish(), schema.Encode(w)),
			history.Tell(r.Job, history.Event{Kind: history.Admitted, Generation: seen.Fence, Node: node,
				Text: node + " was admitted: its quarantine is lifted"}),
		},
	})
	return err
}
