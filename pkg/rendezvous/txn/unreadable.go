package txn

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Unreadable is a job with a record that cannot be read.
type Unreadable struct {
	UID   schema.UID // "": the record of the job cannot be read either
	Nodes []string   // registered on a lease: their agents live, or did a moment ago

	job  *rendezvous.Job
	rev  int64 // of the record of the job; 0: there is none
	size int
}

// Size is the number of its keys.
func (u *Unreadable) Size() int { return u.size }

// LookUnreadable reads what RemoveUnreadable needs.
func (r Requests) LookUnreadable(ctx context.Context) (*Unreadable, error) {
	read, err := r.Store.Get(ctx, r.Job.Prefix(), store.End(r.Job.Prefix()))
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", r.Job, err)
	}
	u := &Unreadable{size: len(read.Entries)}
	for i := range read.Entries {
		e := &read.Entries[i]
		if p := schema.Rest(r.Job.Nodes(), e.Key); p != nil && e.Lease != 0 {
			u.Nodes = append(u.Nodes, p[0])
		}
		if e.Key != r.Job.Job() {
			continue
		}
		u.rev = e.Rev
		if j, err := schema.Decode[rendezvous.Job](e); err == nil {
			u.job, u.UID = &j, j.UID
		}
	}
	return u, nil
}

// RemoveUnreadable deletes everything of a job that cannot be read. It does so only if the record
// of the job is unchanged.
func (r Requests) RemoveUnreadable(ctx context.Context, u *Unreadable) error {
	then := r.deleteJob()
	if u.job != nil {
		then = append(then, r.tombstone(u.job))
	}
	guard := store.Absent(r.Job.Job())
	if u.rev != 0 {
		guard = store.Unchanged(r.Job.Job(), u.rev)
	}
	return r.remove(ctx, store.Txn{If: []store.Guard{guard}, Then: then})
}
