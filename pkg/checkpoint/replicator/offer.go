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

// AdoptJob continues with the job that was made again with the uid u. Pipelines go on.
func (r *Replicator) AdoptJob(u schema.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Record.AdoptJob(u)
	r.published, r.publishedAs = nil, 0 // revisions of the old store are not valid in the new one
}

// findBrought looks once for a checkpoint of an earlier job on this disk.
func (r *Replicator) findBrought() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked {
		return nil
	}
	if r.brought, err = r.Store.Brought(); err != nil {
		return err
	}
	r.looked = true
	return nil
}

// offer adds the brought checkpoint to the record, once the job has a head. Nothing is removed from this
// disk until the record has it, from this node or another one.
func (r *Replicator) offer(
	ctx context.Context, head manifest.Head, committed []manifest.Head,
) (seen bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.brought == nil {
		return true, nil
	}
	if slices.ContainsFunc(committed, func(h manifest.Head) bool { return h.Manifest == r.brought.Manifest }) {
		// else this disk would know the checkpoint under its older number for a moment
		if err := r.Store.NoteCommitted(committed); err != nil {
			return false, err
		}
		r.brought = nil
		return true, r.Store.DropBrought()
	}
	brought := *r.brought
	r.mu.Unlock()
	err = r.Record.Offer(ctx, brought, head, committed)
	r.mu.Lock()
	if errors.Is(err, store.ErrMoved) || errors.Is(err, checkpoint.ErrNoNumber) {
		err = nil // try again at the next call
	}
	return false, err
}
