package txn

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Claim writes c while the job is not in the store, on a lease: a claim is the word of one who is here.
func (r Requests) Claim(ctx context.Context, c rendezvous.Claim) (int64, error) {
	return r.send(ctx, "claim the job", store.Request{
		If:   []store.Guard{store.Absent(r.Job.Job())},
		Then: []store.Write{store.PutLeased(r.Job.Claim(c.Node), schema.Encode(c), c.Lease)},
	})
}

// Removed reports whether somebody removed the job of that uid: then nobody makes it again.
func (r Requests) Removed(ctx context.Context, uid schema.UID) (bool, error) {
	res, err := r.Store.Get(ctx, r.Job.Removed(uid), "")
	return res.One() != nil, err
}

// Remake makes a job again that the store has lost, under a new uid and with a new secret: by one who
// claims it, once, unless somebody else did or removed it meanwhile. own holds the settings of this
// agent, for a job whose attempt had ended.
func (r Requests) Remake(ctx context.Context, me rendezvous.Claim, m *rendezvous.Remake, own rendezvous.Job) (rendezvous.Job, error) {
	j, wish, was := m.Job, m.Wish, m.Job.UID
	if m.Ended {
		attempt := j.Attempt + 1
		j = own
		j.Attempt, wish = attempt, firstWish(own)
	}
	if wish.NP == 0 {
		wish = firstWish(j)
	}
	j.UID, j.Succeeds, j.Lineage = schema.UID(rand.Text()), was, m.Job.Predecessors()
	j.Adopted, j.Time = m.Was, time.Now()
	ev := history.Event{Kind: history.JobRemade, Generation: m.Fence, Node: me.Node, Text: m.Text(),
		Fields: history.Fields{"succeeds": was, "np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max, "nproc_per_node": j.Slots,
			"claims": m.Claims, "missing": append([]string{}, m.Missing...), "checkpoint": nil, "adopted": nil}}
	then := []store.Write{
		store.Put(r.Job.Job(), schema.Encode(j)),
		store.Put(r.Job.Secret(), []byte(rand.Text()+rand.Text())),
		store.Put(r.Job.Wish(), schema.Encode(wish)),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, m.Fence))),
		store.DeleteRange(r.Job.AllClaims(), store.End(r.Job.AllClaims())),
	}
	if h := m.Head; h != nil {
		record := schema.Encode(*h)
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), record), store.Put(r.Job.Head(), record))
		ev.Fields["checkpoint"], ev.Fields["adopted"] = h.Number, m.Was
	}
	for _, h := range m.History {
		then = append(then, store.Put(r.Job.Checkpoint(uint64(h.Number)), schema.Encode(h)))
	}
	_, err := r.send(ctx, "make the job again", store.Request{
		If: []store.Guard{store.Absent(r.Job.Job()), store.Unchanged(r.Job.Claim(me.Node), me.Rev),
			store.Absent(r.Job.Removed(was))},
		Then: append(then, history.Tell(r.Job, ev)),
	})
	return j, err
}
