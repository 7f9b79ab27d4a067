package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Remaking is a request to make a job again.
type Remaking struct {
	Node   string // that makes it again
	Job    *plan.Remake
	Secret []byte
	Seen   *rendezvous.Snapshot // the whole job as the store shows it
}

// Remake makes a job again that the store has lost, under a new uid, with its World as it was: the
// workers go on. It fails if another agent did so already, if the job was removed, or if the store
// has changed since Seen. It deletes what the store still has of the older state. The new uid in the
// fence keeps out requests from before, because revisions begin anew in a store that was wiped.
func (r Requests) Remake(ctx context.Context, x Remaking) error {
	j, m := x.Job.Job, x.Job
	j.FirstUID, j.UID, j.Remade = j.Identity(), schema.UID(rand.Text()), j.Remade+1
	guards := []store.Guard{store.Absent(r.Job.Removed(j.Identity())),
		store.Unchanged(r.Job.Job(), jobRev(x.Seen)), store.Unchanged(r.Job.Head(), x.Seen.Head.Rev)}
	then := []store.Write{store.Put(r.Job.Job(), schema.Encode(j))} // Send knows an applied request by it
	if o := x.Seen.Job; o != nil {
		guards = append(guards, schema.FenceIs(r.Job, o.UID, x.Seen.Fence))
		then = append(then, store.Delete(r.Job.Secret(o.UID)))
	}
	wish := m.Wish
	if wish.NP == 0 {
		wish = firstWish(j)
	}
	then = append(then, store.Put(r.Job.Secret(j.UID), x.Secret), store.Put(r.Job.Wish(), schema.Encode(wish)),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, m.Fence))))
	world, err := r.worldAgain(ctx, m.World, j.UID)
	if err != nil {
		return err
	}
	then = append(append(then, world, store.Delete(r.Job.Progress())), r.deleteRecords()...)
	then = append(then, r.checkpointsAgain(x)...)
	ev := history.Event{Kind: history.JobRemade, Generation: m.Fence, Node: x.Node,
		Text: fmt.Sprintf("job made again by %s after its server lost it: %s", x.Node, atHead(&m.Head)),
		Fields: history.Fields{"remade": j.Remade, "np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max,
			"nproc_per_node": j.Slots, "checkpoint": nil}}
	if m.Head.Number > 0 {
		ev.Fields["checkpoint"] = m.Head.Number
	}
	_, err = r.send(ctx, "make the job again",
		store.Request{If: guards, Then: append(then, history.Tell(r.Job, ev))})
	return err
}

// jobRev returns the revision of the job that s shows; 0: there is none.
func jobRev(s *rendezvous.Snapshot) int64 {
	if s.Job == nil {
		return 0
	}
	return s.Job.Rev
}

// atHead says which checkpoint is the newest.
func atHead(h *checkpoint.Head) string {
	if h.Number == 0 {
		return "it has no checkpoint"
	}
	return fmt.Sprintf("its newest checkpoint is %d, %s", h.Number, rendezvous.DescribeHead(h))
}

// worldAgain returns the write of the World under the new uid. The members of a large one are written
// before it.
func (r Requests) worldAgain(
	ctx context.Context, w *rendezvous.World, uid schema.UID,
) (store.Write, error) {
	if w == nil {
		return store.Delete(r.Job.World()), nil
	}
	again := *w
	again.UID, again.Turn, again.Chunks = uid, rand.Text(), 0
	if max(again.Count, len(again.Leavers)) > rendezvous.MaxInline {
		if err := r.putMembers(ctx, &again); err != nil {
			return store.Write{}, err
		}
	}
	return store.Put(r.Job.World(), again.Record()), nil
}

// mostDropped bounds how many records of checkpoints are deleted with a job: a transaction is small.
const mostDropped = 48

// checkpointsAgain returns the writes of the records of checkpoints. Records that the store shows and
// the job does not have are deleted.
func (r Requests) checkpointsAgain(x Remaking) (all []store.Write) {
	again := map[checkpoint.Number]bool{}
	put := func(h checkpoint.Head) {
		again[h.Number] = true
		all = append(all, store.Put(r.Job.Checkpoint(uint64(h.Number)), schema.Encode(h)))
	}
	for _, h := range x.Job.History {
		put(h)
	}
	if h := x.Job.Head; h.Number > 0 {
		put(h)
		all = append(all, store.Put(r.Job.Head(), schema.Encode(h)))
	} else {
		all = append(all, store.Delete(r.Job.Head()))
	}
	shown := x.Seen.History
	for _, h := range shown[max(0, len(shown)-mostDropped):] {
		if !again[h.Number] {
			all = append(all, store.Delete(r.Job.Checkpoint(uint64(h.Number))))
		}
	}
	return all
}

// deleteRecords returns the writes that delete every record of a node or a generation. Nodes write
// theirs again.
func (r Requests) deleteRecords() (all []store.Write) {
	for _, of := range []string{r.Job.Nodes(), r.Job.AllReady(), r.Job.AllLeft(), r.Job.AllSuspects(),
		r.Job.AllExits(), r.Job.AllFailures(), r.Job.AllHeld(), r.Job.AllDoing(), r.Job.AllWarming(),
		r.Job.AllNaNs(), r.Job.AllParts(), r.Job.AllBrought()} {
		all = append(all, store.DeleteRange(of, store.End(of)))
	}
	return all
}

// AllowResume lets nodes of earlier jobs of this name come, so that the first World begins from the
// newest checkpoint that they bring: of the job run, if it is not "". It removes a job that the store
// shows and that has no nodes: the store was set back, and the job is an older state of an earlier one.
// It fails with store.ErrMoved if that has changed since seen.
func (r Requests) AllowResume(ctx context.Context, seen *rendezvous.Snapshot, run schema.UID) error {
	allowed := rand.Text() + " " + string(run) // unique: Send knows an applied request by it
	req := store.Request{If: []store.Guard{store.Unchanged(r.Job.Job(), jobRev(seen))},
		Then: []store.Write{store.Put(r.Job.Resume(), []byte(allowed))}}
	if o := seen.Job; o != nil {
		req.If = append(req.If, store.NoneBelow(r.Job.Nodes()), schema.FenceIs(r.Job, o.UID, seen.Fence))
		req.Then = append(req.Then, r.deleteJob()...)
	}
	_, err := r.send(ctx, "allow nodes to bring checkpoints", req)
	return err
}

// MayResume returns what nodes may bring since AllowResume; nil: nothing, also because the last job of
// the name was removed. rev is the revision of that, 0 for nothing.
func (r Requests) MayResume(ctx context.Context) (allowed *rendezvous.Aside, rev int64, err error) {
	res, err := r.Store.Get(ctx, r.Job.Resume(), "")
	if err != nil || res.One() == nil {
		return nil, 0, err
	}
	_, run, _ := strings.Cut(string(res.One().Value), " ")
	return &rendezvous.Aside{Newest: true, Run: schema.UID(run)}, res.One().Rev, nil
}
