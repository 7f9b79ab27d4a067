package rendezvous

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// before are the uids that the job had in stores that were lost, the newest last: enough of them for who
// was away for long.
func (j *Job) before() []schema.UID {
	const most = 16
	all := slices.Clone(j.Lineage)
	if j.Succeeds != "" {
		all = append(all, j.Succeeds)
	}
	return all[max(0, len(all)-most):]
}

// Follows reports whether j is the job u, made again after its store was lost.
func (j *Job) Follows(u schema.UID) bool { return u != "" && slices.Contains(j.before(), u) }

// holders are the claimants that have a manifest on their disks.
func holders(claims []Claim, m checkpoint.Hash) (refs []membership.Ref, copies int) {
	for _, c := range claims {
		has := c.Newest != nil && c.Newest.Manifest == m ||
			slices.ContainsFunc(c.Heads, func(h checkpoint.Head) bool { return h.Manifest == m })
		if has {
			refs = append(refs, membership.Ref{Node: c.Node})
		}
	}
	slices.SortFunc(refs, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return refs, len(refs)
}

// decodeClaims reads claims/, by node.
func decodeClaims(job schema.Job, entries []store.Entry) (all []Claim, err error) {
	for i := range entries {
		e := &entries[i]
		p := schema.Rest(job.AllClaims(), e.Key)
		if len(p) != 1 {
			continue
		}
		c, err := schema.Decode[Claim](e)
		if err != nil {
			return nil, err
		}
		c.Node, c.Job.Name, c.Rev, c.Lease = p[0], job, e.Rev, e.Lease
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Claim) int { return strings.Compare(a.Node, b.Node) })
	return all, nil
}

// Claim writes c while the job is not in the store, on a lease: a claim is the word of one who is here.
func (r Requests) Claim(ctx context.Context, c Claim) (int64, error) {
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
func (r Requests) Remake(ctx context.Context, me Claim, m *Remake, own Job) (Job, error) {
	j, wish, was := m.Job, m.Wish, m.Job.UID
	if m.Ended {
		attempt := j.Attempt + 1
		j = own
		j.Attempt, wish = attempt, firstWish(own)
	}
	if wish.NP == 0 {
		wish = firstWish(j)
	}
	j.UID, j.Succeeds, j.Lineage = schema.UID(rand.Text()), was, m.Job.before()
	j.Adopted, j.Time = m.Was, time.Now()
	ev := history.Event{Kind: history.JobRemade, Generation: m.Fence, Node: me.Node, Text: m.text(),
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

func (m *Remake) text() string {
	text := fmt.Sprintf("job made again after its store was lost, as %s claimed it", strings.Join(some(m.Claims), ", "))
	if len(m.Missing) > 0 {
		text += ", without " + strings.Join(some(m.Missing), ", ")
	}
	if m.Head == nil {
		return text + ": none of them has a checkpoint"
	}
	return text + fmt.Sprintf(": it goes on from %s, which is checkpoint %d now", describe(m.Head), m.Head.Number)
}

func some(names []string) []string {
	const most = 8
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(names)-most))
}
