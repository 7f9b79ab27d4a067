package rendezvous

import (
	"context"
	"sync"

	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/pkg/membership"
)

// Roster remembers the members of one large world for an agent. They never change within a
// proposal: each node reads them once, not with every phase. A nil Roster remembers nothing.
type Roster struct {
	mu       sync.Mutex // the follower and reads share it
	proposal string
	members  []membership.Ref
}

// fill puts the members into w, whose record leaves them out.
func (r *Roster) fill(ctx context.Context, st keys.Store, job keys.Job, w *World) error {
	if r == nil || w.Chunks == 0 {
		return Members(ctx, st, job, w)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proposal != w.Proposal {
		if err := Members(ctx, st, job, w); err != nil {
			return err
		}
		r.proposal, r.members = w.Proposal, w.Members
	}
	w.Members = r.members
	return nil
}
