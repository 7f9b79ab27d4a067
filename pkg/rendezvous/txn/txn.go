// Package txn has the transaction that carries out each step of a job, and the other requests of
// agents and operators on its records.
package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Requests makes the transactions of one job (docs/PROTOCOL.md, section 2). Each is harmless when
// it is applied late, also after its sender crashed, froze, or came back as another incarnation.
// Each returns store.ErrMoved if a guard no longer holds: it was not applied, and never will be.
type Requests struct {
	Store store.Store
	Job   schema.Job
}

func (r Requests) send(ctx context.Context, what string, req store.Request) (int64, error) {
	rev, err := store.Send(ctx, r.Store, req)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return rev, nil
}

// sendOn is send with the guard that the fence is unchanged. In one store no revision occurs twice.
// A store that was wiped counts revisions anew, and only the fence, which has the uid, tells its
// job from the one that was lost.
func (r Requests) sendOn(
	ctx context.Context, fence store.Guard, what string, req store.Request,
) (int64, error) {
	req.If = append([]store.Guard{fence}, req.If...)
	return r.send(ctx, what, req)
}

// worldOf returns the generation and the revision of the World that s shows; 0, 0: there is none.
func worldOf(s *rendezvous.Snapshot) (g schema.Generation, rev int64) {
	if s.World == nil {
		return 0, 0
	}
	return s.World.Generation, s.World.Rev
}

// fence is the guard that the newest proposed generation of the job is still the one in seen.
func (r Requests) fence(seen *rendezvous.Snapshot) store.Guard {
	return schema.FenceIs(r.Job, seen.Job.UID, seen.Fence)
}

// writePhase writes a new phase of the World over the one in seen, together with the writes of
// with.
func (r Requests) writePhase(
	ctx context.Context, seen *rendezvous.Snapshot, to rendezvous.World, with store.Request,
) (rendezvous.World, error) {
	_, rev := worldOf(seen)
	to.Time = time.Now()
	// Send recognises its own write by its value. Two keepers may write the same phase, so the
	// value needs a random part.
	to.Turn = rand.Text()
	rev, err := r.sendOn(ctx, r.fence(seen), "turn the world to "+string(to.Phase), store.Request{
		If:   append([]store.Guard{store.Unchanged(r.Job.World(), rev)}, with.If...),
		Then: append([]store.Write{store.Put(r.Job.World(), to.Record())}, with.Then...),
	})
	to.Rev = rev
	return to, err
}
