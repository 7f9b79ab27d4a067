package txn

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Claiming is a request to claim a job.
type Claiming struct {
	Claim  rendezvous.Claim     // with its lease
	Before int64                // the revision of the claim of this node that it replaces; 0: none
	Seen   *rendezvous.Snapshot // the snapshot of the store that is behind
}

// Claim writes a claim on its lease, if the job in the store, or its absence, is as in Seen.
func (r Requests) Claim(ctx context.Context, x Claiming) (int64, error) {
	key := r.Job.Claim(x.Claim.Node)
	return r.send(ctx, "claim the job", store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.Job(), jobRev(x.Seen)), store.Unchanged(key, x.Before)},
		Then: []store.Write{store.PutLeased(key, schema.Encode(x.Claim), x.Claim.Lease)},
	})
}

// ClaimRev returns the revision of the claim of a node; 0: it has none.
func (r Requests) ClaimRev(ctx context.Context, node string) (int64, error) {
	res, err := r.Store.Get(ctx, r.Job.Claim(node), "")
	if err != nil || res.One() == nil {
		return 0, err
	}
	return res.One().Rev, nil
}

// jobRev returns the revision of the job that s shows; 0: there is none.
func jobRev(s *rendezvous.Snapshot) int64 {
	if s.Job == nil {
		return 0
	}
	return s.Job.Rev
}

// Removed reports whether the job of that uid was removed. Such a job must not be made again.
func (r Requests) Removed(ctx context.Context, uid schema.UID) (bool, error) {
	res, err := r.Store.Get(ctx, r.Job.Removed(uid), "")
	return res.One() != nil, err
}

// Remaking is a request to make a job again.
type Remaking struct {
	Me   rendezvous.Claim
	Job  *reclaim.Remake
	Own  rendezvous.Job       // the settings of this agent, for a job whose attempt had ended
	Seen *rendezvous.Snapshot // the snapshot of the store that is behind
}

// mostClaims is the number of claims that are compared one by one. A transaction has at most 128
// guards.
const mostClaims = 64

// sameClaims returns the guards that the claims are those in seen. They matter after the store was
// set back to a moment in which the job was claimed: it then shows this node's old claim, and looks
// unchanged until other nodes write newer claims.
func (r Requests) sameClaims(seen *rendezvous.Snapshot) []store.Guard {
	guards := []store.Guard{store.NoneNewer(r.Job.AllClaims(), seen.Rev)}
	for _, c := range seen.Claims[:min(len(seen.Claims), mostClaims)] {
		guards = append(guards, store.Unchanged(r.Job.Claim(c.Node), c.Rev))
	}
	return guards
}

// Remake makes a job again, under a new uid and with a new secret, because the store is behind. It
// fails if another node did so already, if the job was removed, or if the job or its claims changed
// since Seen. It deletes what the store still has of the older job, except the records of
// checkpoints and the events. It also deletes the records of checkpoints of another job that the store
// shows, and of those that were passed over. Nodes that have the newest of these offer it.
func (r Requests) Remake(ctx context.Context, x Remaking) (rendezvous.Job, error) {
	m, me := x.Job, x.Me
	j, wish, was := m.Job, m.Wish, m.Job.UID
	if m.Ended {
		attempt := j.Attempt + 1
		j = x.Own
		j.Attempt, wish = attempt, firstWish(x.Own)
	}
	if wish.NP == 0 {
		wish = firstWish(j)
	}
	j.UID, j.Succeeds, j.Lineage = schema.UID(rand.Text()), was, m.Job.Predecessors()
	if o := x.Seen.Job; o != nil && x.Seen.Fence == 0 { // it never ran, and its nodes go on in this job
		j.Supersede(o)
	}
	j.Adopted, j.AdoptedOrder = m.Was.Number, m.Was.Order
	j.Ran, j.Time, j.Claimants = m.Job.Ran, time.Now(), nil
	if len(m.Claims) <= rendezvous.MaxInline {
		j.Claimants = m.Claims
	}
	ev := history.Event{Kind: history.JobRemade, Generation: m.Fence, Node: me.Node, Text: m.Text(),
		Fields: history.Fields{"succeeds": was, "np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max,
			"nproc_per_node": j.Slots,
			"claims":         m.Claims, "missing": append([]string{}, m.Missing...),
			"checkpoint": nil, "adopted": nil}}
	then := []store.Write{store.Put(r.Job.Job(), schema.Encode(j))} // Send knows an applied request by it
	then = append(append(then, r.dropPassedOver(x)...), r.dropOther(x)...)
	then = append(then,
		store.Put(r.Job.Secret(j.UID), []byte(rand.Text()+rand.Text())),
		store.Delete(r.Job.Secret(was)),
		store.Put(r.Job.Wish(), schema.Encode(wish)),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, m.Fence))),
		store.Delete(r.Job.World()),
		store.Delete(r.Job.Progress()))
	then = append(then, r.deleteRecords()...)
	if h := m.Head; h != nil {
		record := schema.Encode(*h)
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), record),
			store.Put(r.Job.Head(), record))
		ev.Fields["checkpoint"], ev.Fields["adopted"] = h.Number, m.Was.Number
	}
	for _, h := range m.History {
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), schema.Encode(h)))
	}
	// The guard compares the whole claim, which has its lease. A store that was lost again may use
	// the same revision again, but never the id of a lease.
	mine := store.Guard{Key: r.Job.Claim(me.Node), What: store.ValueIs, Value: string(schema.Encode(me))}
	guards := []store.Guard{store.Unchanged(r.Job.Job(), jobRev(x.Seen)), mine,
		store.Absent(r.Job.Removed(was))}
	if x.Seen.Job != nil {
		guards = append(guards, schema.FenceIs(r.Job, x.Seen.Job.UID, x.Seen.Fence),
			store.Unchanged(r.Job.Head(), x.Seen.Head.Rev))
	}
	guards = append(guards, r.sameClaims(x.Seen)...)
	_, err := r.send(ctx, "make the job again",
		store.Request{If: guards, Then: append(then, history.Tell(r.Job, ev))})
	return j, err
}

// dropOther returns the writes that delete another job that the store shows. If it ran, it was removed
// before the job was made that is made again, and stays removed.
func (r Requests) dropOther(x Remaking) (all []store.Write) {
	o := x.Seen.Job
	if o == nil || o.UID == x.Job.Job.UID {
		return nil
	}
	all = append(all, store.Delete(r.Job.Secret(o.UID)))
	if x.Job.Job.Follows(o.UID) || x.Seen.Fence == 0 {
		return all
	}
	return slices.Concat(all, r.tombstones(o), r.dropCheckpoints(x))
}

// dropPassedOver returns the writes that delete the checkpoints that the store shows with larger
// numbers than the adopted one, although they were committed before it. The store is a copy of another
// history of the job.
func (r Requests) dropPassedOver(x Remaking) (all []store.Write) {
	was := x.Job.Was
	if x.Seen.Job == nil || x.Seen.Job.UID != x.Job.Job.UID {
		return nil
	}
	shown := x.Seen.History
	for _, h := range shown[max(0, len(shown)-mostDropped):] {
		if h.Number > was.Number && h.Before(was) && !h.Offered {
			all = append(all, store.Delete(r.Job.Checkpoint(uint64(h.Number))))
		}
	}
	return all
}

// mostDropped bounds how many records of checkpoints are deleted with a job: a transaction is small.
const mostDropped = 48

// dropCheckpoints returns the writes that delete the checkpoints of the job that the store shows, except
// those whose numbers the job has that is made again.
func (r Requests) dropCheckpoints(x Remaking) (all []store.Write) {
	again := map[checkpoint.Number]bool{}
	for _, h := range x.Job.History {
		again[h.Number] = true
	}
	if h := x.Job.Head; h != nil {
		again[h.Number] = true
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

// deleteRecords returns the writes that delete every record of a node, claim, proposal or part.
func (r Requests) deleteRecords() (all []store.Write) {
	for _, of := range []string{r.Job.AllClaims(), r.Job.AllPlans(), r.Job.Nodes(), r.Job.AllReady(),
		r.Job.AllLeft(), r.Job.AllSuspects(), r.Job.AllExits(), r.Job.AllFailures(), r.Job.AllHeld(),
		r.Job.AllDoing(), r.Job.AllWarming(), r.Job.AllWarm(), r.Job.AllParts()} {
		all = append(all, store.DeleteRange(of, store.End(of)))
	}
	return all
}
