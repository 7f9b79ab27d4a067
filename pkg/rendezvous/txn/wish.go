package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// SetWish writes w over the wish in seen. It returns the wish with its request id.
func (r Requests) SetWish(
	ctx context.Context, seen *rendezvous.Snapshot, w rendezvous.Wish,
) (rendezvous.Wish, error) {
	previous := seen.Wish.NP
	w.Request, w.Time = rand.Text(), time.Now()
	text := map[string]string{"scale": fmt.Sprintf("np changed from %d to %d", previous, w.NP),
		"drain": "asked to go: " + strings.Join(w.Drain, ", "), "stop": "the job was asked to stop",
		"restart": "the job was asked to restart"}[w.By]
	g, worldRev := worldOf(seen)
	rev, err := r.sendOn(ctx, r.fence(seen), "write the wish", store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Wish(), seen.Wish.Rev),
			store.Unchanged(r.Job.World(), worldRev)},
		Then: []store.Write{
			store.Put(r.Job.Wish(), schema.Encode(w)),
			history.Tell(r.Job, history.Event{Kind: history.WishChanged, Generation: g, Text: text,
				Fields: history.Fields{"np": w.NP, "previous_np": previous, "by": w.By}}),
		},
	})
	w.Rev = rev
	return w, err
}
