package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Create makes the job, with its secret and its first wish, if the guards hold, too.
func (r Requests) Create(ctx context.Context, j rendezvous.Job, guards ...store.Guard) error {
	_, err := r.send(ctx, "create job", store.Request{
		If: append([]store.Guard{store.Absent(r.Job.Job())}, guards...),
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),
			store.Put(r.Job.Secret(j.UID), []byte(rand.Text()+rand.Text())),
			store.Put(r.Job.Wish(), schema.Encode(firstWish(j))),
			store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, 0))),
			history.Tell(r.Job, history.Event{Kind: history.JobCreated, Text: "job created",
				Fields: history.Fields{"np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max,
					"nproc_per_node": j.Slots}}),
		},
	})
	return err
}

// Reopen begins a new attempt of a job that had failed or was stopped when this agent came, or that no node
// is in. The guard on that World lets it happen only once. j carries the settings of this agent.
func (r Requests) Reopen(ctx context.Context, seen *rendezvous.Snapshot, j rendezvous.Job) error {
	_, world := worldOf(seen)
	guards := []store.Guard{
		store.Unchanged(r.Job.Job(), seen.Job.Rev),
		store.Unchanged(r.Job.Wish(), seen.Wish.Rev),
		store.Unchanged(r.Job.World(), world),
	}
	if seen.World == nil || !seen.World.Phase.Ended() {
		guards = append(guards, store.NoneBelow(r.Job.Nodes()))
	}
	j.UID, j.Attempt = seen.Job.UID, seen.Job.Attempt+1
	j.FirstUID, j.Remade, j.Resumes = seen.Job.FirstUID, seen.Job.Remade, seen.Job.Resumes
	_, err := r.sendOn(ctx, schema.FenceIs(r.Job, j.UID, seen.Fence), "open a new attempt", store.Request{
		If: guards,
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),
			store.Put(r.Job.Wish(), schema.Encode(firstWish(j))),
		},
	})
	return err
}

func firstWish(j rendezvous.Job) rendezvous.Wish {
	return rendezvous.Wish{NP: j.Limits.Max, Request: rand.Text(), By: "run", Time: time.Now()}
}

// tombstone records that a job was removed, for nodes that still have data of it.
func (r Requests) tombstone(j *rendezvous.Job) store.Write {
	return store.Put(r.Job.Removed(j.Identity()), []byte(time.Now().UTC().Format(history.TimeFormat)))
}

// Removed reports whether that job was removed.
func (r Requests) Removed(ctx context.Context, j *rendezvous.Job) (bool, error) {
	res, err := r.Store.Get(ctx, r.Job.Removed(j.Identity()), "")
	return res.One() != nil, err
}

// deleteJob returns the writes that delete everything of the job.
func (r Requests) deleteJob() []store.Write {
	return []store.Write{store.DeleteRange(r.Job.Prefix(), store.End(r.Job.Prefix())),
		store.DeleteRange(r.Job.Secrets(), store.End(r.Job.Secrets()))}
}

// Remove deletes everything of a job that has no registered node.
func (r Requests) Remove(ctx context.Context, seen *rendezvous.Snapshot) error {
	j := seen.Job
	return r.remove(ctx, store.Txn{
		If: []store.Guard{store.NoneBelow(r.Job.Nodes()), store.Unchanged(r.Job.Job(), j.Rev),
			schema.FenceIs(r.Job, j.UID, seen.Fence)},
		Then: append(r.deleteJob(), r.tombstone(j), store.Delete(r.Job.Resume())),
	})
}

// remove applies the transaction that deletes a job. It fails with store.ErrMoved if a guard does not
// hold.
func (r Requests) remove(ctx context.Context, t store.Txn) error {
	res, err := r.Store.Txn(ctx, t)
	if err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	if !res.OK {
		return fmt.Errorf("remove job: %w", store.ErrMoved)
	}
	return nil
}
