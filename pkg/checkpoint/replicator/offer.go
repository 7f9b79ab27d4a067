package replicator

import (
	"context"
	"errors"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// AdoptJob goes on with the job that was made again under the uid u after its store was lost, and
// after KeepLate. No pipeline is open.
func (r *Replicator) AdoptJob(u schema.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Record.AdoptJob(u)
	r.published, r.publishedAs = nil, 0 // revisions of another store say nothing in this one
	r.late, r.looked = nil, false
	r.newest = 0
}

// findLate looks once whether a checkpoint that came too late is on this disk.
func (r *Replicator) findLate() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked {
		return nil
	}
	if r.late, err = r.Store.Late(); err != nil {
		return err
	}
	r.looked = true
	return nil
}

// offer puts the checkpoint that came too late into the record. Until it is seen there, by this
// node or by another one that has it, nothing is removed here.
func (r *Replicator) offer(
	ctx context.Context, head manifest.Head, committed []manifest.Head,
) (seen bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late == nil {
		return true, nil
	}
	if slices.ContainsFunc(committed, func(h manifest.Head) bool { return h.Manifest == r.late.Manifest }) {
		r.late = nil
		return true, r.Store.DropLate()
	}
	late := *r.late
	r.mu.Unlock()
	err = r.Record.Offer(ctx, late, head, committed)
	r.mu.Lock()
	if errors.Is(err, store.ErrMoved) || errors.Is(err, checkpoint.ErrNoNumber) {
		err = nil // at the next look
	}
	return false, err
}
