package txn

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Ready reports that node me has stopped every older worker and has what generation w needs.
func (r Requests) Ready(ctx context.Context, w *rendezvous.World, me membership.Node, rd rendezvous.Ready) error {
	rd.Incarnation = me.Incarnation
	_, err := r.send(ctx, "report ready", store.Request{
		If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(r.Job.Node(me.Node), me.Rev)},
		Then: []store.Write{store.Put(r.Job.Ready(w.Generation, me.Node), schema.Encode(rd))},
	})
	return err
}

// Exit reports how the workers of node ended; seen is the revision of the record that it replaces.
func (r Requests) Exit(ctx context.Context, w *rendezvous.World, node string, seen int64, x rendezvous.Exit) (int64, error) {
	return r.send(ctx, "report exit", store.Request{
		If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(r.Job.Exit(w.Generation, node), seen)},
		Then: []store.Write{store.Put(r.Job.Exit(w.Generation, node), schema.Encode(x))},
	})
}

// Fail records the first failure of a generation; who comes later gets store.ErrMoved. Its guard is the
// world, not the fence: a worker that ends because the others were asked to stop did not fail.
func (r Requests) Fail(ctx context.Context, w *rendezvous.World, f rendezvous.Failure) error {
	_, err := r.sendOn(ctx, w.UID, w.Generation, "report failure", store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.World(), w.Rev), store.Absent(r.Job.Failure(w.Generation))},
		Then: []store.Write{store.Put(r.Job.Failure(w.Generation), schema.Encode(f))},
	})
	return err
}
