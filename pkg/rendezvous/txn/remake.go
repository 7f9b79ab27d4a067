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
	Before int64                // revision of the claim of this node that it replaces; 0: none
	Seen   *rendezvous.Snapshot // the store, which is behind
}

// Claim writes a claim on its lease, while the store holds the job that was seen, or none.
func (r Requests) Claim(ctx context.Context, x Claiming) (int64, error) {
	key := r.Job.Claim(x.Claim.Node)
	return r.send(ctx, "claim the job", store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.Job(), jobRev(x.Seen)), store.Unchanged(key, x.Before)},
		Then: []store.Write{store.PutLeased(key, schema.Encode(x.Claim), x.Claim.Lease)},
	})
}

// ClaimRev is the revision of the claim of a node; 0: it has none.
func (r Requests) ClaimRev(ctx context.Context, node string) (int64, error) {
	res, err := r.Store.Get(ctx, r.Job.Claim(node), "")
	if err != nil || res.One() == nil {
		return 0, err
	}
	return res.One().Rev, nil
}

func jobRev(s *rendezvous.Snapshot) int64 {
	if s.Job == nil {
		return 0
	}
	return s.Job.Rev
}

// Removed reports whether the job of that uid was removed: then it must not be made again.
func (r Requests) Removed(ctx context.Context, uid schema.UID) (bool, error) {
	res, err := r.Store.Get(ctx, r.Job.Removed(uid), "")
	return res.One() != nil, err
}

// Remaking is a request to make a job again.
type Remaking struct {
	Me   rendezvous.Claim
	Job  *reclaim.Remake
	Own  rendezvous.Job       // the settings of this agent, for a job whose attempt had ended
	Seen *rendezvous.Snapshot // the store, which is behind
}

// mostClaims bounds how many claims are compared one by one: a transaction has at most 128 guards.
const mostClaims = 64

// sameClaims hold while the claims are those that were seen. A store that was set back to a moment
// in which the job was claimed shows this node's claim as it was then. It looks like the store of
// that moment until others claim what they know since.
func (r Requests) sameClaims(seen *rendezvous.Snapshot) []store.Guard {
	guards := []store.Guard{store.NoneNewer(r.Job.AllClaims(), seen.Rev)}
	for _, c := range seen.Claims[:min(len(seen.Claims), mostClaims)] {
		guards = append(guards, store.Unchanged(r.Job.Claim(c.Node), c.Rev))
	}
	return guards
}

// Remake makes a job again for which the store is behind, under a new uid and with a new secret:
// once, unless another node did, the job was removed, or anything moved in the store, claims too,
// since it was seen. What the store still shows of the older job goes with it, but for the records of its
// checkpoints. Another job that gives way goes with its checkpoints.
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
	var instead []store.Write
	if o := x.Seen.Job; o != nil && o.UID != was {
		instead = append(instead, store.Delete(r.Job.Secret(o.UID)))
		switch {
		case m.Job.Follows(o.UID):
		case x.Seen.Fence == 0:
			j.Supersede(o)
		default: // it was removed before
			instead = slices.Concat(instead, r.tombstones(o), r.dropCheckpoints(x))
		}
	}
	j.Adopted, j.Ran, j.Time, j.Claimants = m.Was, m.Job.Ran, time.Now(), nil
	if len(m.Claims) <= rendezvous.MaxInline {
		j.Claimants = m.Claims
	}
	ev := history.Event{Kind: history.JobRemade, Generation: m.Fence, Node: me.Node, Text: m.Text(),
		Fields: history.Fields{"succeeds": was, "np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max,
			"nproc_per_node": j.Slots,
			"claims":         m.Claims, "missing": append([]string{}, m.Missing...),
			"checkpoint": nil, "adopted": nil}}
	then := append(instead,
		store.Put(r.Job.Job(), schema.Encode(j)),
		store.Put(r.Job.Secret(j.UID), []byte(rand.Text()+rand.Text())),
		store.Delete(r.Job.Secret(was)),
		store.Put(r.Job.Wish(), schema.Encode(wish)),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, m.Fence))),
		store.Delete(r.Job.World()),
		store.Delete(r.Job.Progress()))
	then = append(then, r.clear()...)
	if h := m.Head; h != nil {
		record := schema.Encode(*h)
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), record),
			store.Put(r.Job.Head(), record))
		ev.Fields["checkpoint"], ev.Fields["adopted"] = h.Number, m.Was
	}
	for _, h := range m.History {
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), schema.Encode(h)))
	}
	// The whole claim is compared, which has its lease: in a store that was lost once more the
	// revisions come back, and leases do not.
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

// dropCheckpoints deletes the records of the checkpoints of the job that the store shows, but for numbers that
// the job that is made again has.
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
	for _, h := range x.Seen.History {
		if !again[h.Number] {
			all = append(all, store.Delete(r.Job.Checkpoint(uint64(h.Number))))
		}
	}
	return all
}

// clear deletes what there is of each node of a job, and of each claim, proposal and part.
func (r Requests) clear() (all []store.Write) {
	for _, of := range []string{r.Job.AllClaims(), r.Job.AllPlans(), r.Job.Nodes(), r.Job.AllReady(),
		r.Job.AllLeft(), r.Job.AllSuspects(), r.Job.AllExits(), r.Job.AllFailures(), r.Job.AllHeld(),
		r.Job.AllDoing(), r.Job.AllWarming(), r.Job.AllWarm(), r.Job.AllParts()} {
		all = append(all, store.DeleteRange(of, store.End(of)))
	}
	return all
}
