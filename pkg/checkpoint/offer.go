package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// uid returns the uid of the job.
func (r *Record) uid() schema.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.UID
}

// AdoptJob continues with the job that was made again with the uid u.
func (r *Record) AdoptJob(u schema.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.UID = u
}

// ErrNoNumber means that a checkpoint cannot be offered.
var ErrNoNumber = errors.New("no number below the head is free")

// Offer records a checkpoint that this node brought from an earlier job. Its number is a free one below
// that of the head, because higher numbers are for later commits.
func (r *Record) Offer(ctx context.Context, h, head manifest.Head, committed []manifest.Head) error {
	was := h.Number
	taken := func(n manifest.Number) bool {
		return n == 0 || n >= head.Number ||
			slices.ContainsFunc(committed, func(c manifest.Head) bool { return c.Number == n })
	}
	for n := head.Number; n > 0 && taken(h.Number); n-- {
		h.Number = n - 1
	}
	if taken(h.Number) {
		return ErrNoNumber
	}
	h.Holders, h.Copies = []membership.Ref{{Node: r.Self}}, 1
	h.Offered, h.Restored = true, false
	if h.Parts != nil { // it is unknown which holders of the parts come back
		h.Copies = max(1, h.CopiesAt(nil, h.HeldBy))
	}
	key := r.Job.Checkpoint(uint64(h.Number))
	_, err := store.Send(ctx, r.Store, store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Head(), head.Rev), store.Absent(key)},
		Then: []store.Write{store.Put(key, schema.Encode(h)),
			history.Tell(r.Job, offeredEvent(r.Self, h, was))},
	})
	if err != nil {
		return fmt.Errorf("offer checkpoint: %w", err)
	}
	return nil
}
