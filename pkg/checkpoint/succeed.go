package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// uid is the job's.
func (r *Record) uid() schema.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.UID
}

func (r *Record) succeed(u schema.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.UID = u
}

// Succeed: the job was made again under the uid u, after its store was lost, and after KeepLate. No
// line is open.
func (k *Keeper) Succeed(u schema.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Record.succeed(u)
	k.told, k.toldAs = nil, 0 // revisions of another store say nothing in this one
	k.late, k.looked = nil, false
	k.newest = 0
}

// findLate looks once whether a checkpoint that came too late is on this disk.
func (k *Keeper) findLate() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked {
		return nil
	}
	if k.late, err = k.Store.Late(); err != nil {
		return err
	}
	k.looked = true
	return nil
}

// offer puts the checkpoint that came too late into the record. Until it is seen there, by this
// node or by another one that has it, nothing is removed here.
func (k *Keeper) offer(ctx context.Context, head manifest.Head, committed []manifest.Head) (seen bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.late == nil {
		return true, nil
	}
	if slices.ContainsFunc(committed, func(h manifest.Head) bool { return h.Manifest == k.late.Manifest }) {
		k.late = nil
		return true, k.Store.DropLate()
	}
	late := *k.late
	k.mu.Unlock()
	err = k.Record.Offer(ctx, late, head, committed, k.Self)
	k.mu.Lock()
	if errors.Is(err, store.ErrMoved) || errors.Is(err, errNoNumber) {
		err = nil // at the next look
	}
	return false, err
}

var errNoNumber = errors.New("no number below the head is free")

// Offer records a checkpoint of before the store was lost, under a free number below the head's:
// the numbers above are those of commits to come.
func (r *Record) Offer(ctx context.Context, h, head manifest.Head, committed []manifest.Head, self string) error {
	was := h.Number
	taken := func(n manifest.Number) bool {
		return n == 0 || n >= head.Number ||
			slices.ContainsFunc(committed, func(c manifest.Head) bool { return c.Number == n })
	}
	for n := head.Number; n > 0 && taken(h.Number); n-- {
		h.Number = n - 1
	}
	if taken(h.Number) {
		return errNoNumber
	}
	h.Holders, h.Copies, h.Offered = []membership.Ref{{Node: self}}, 1, true
	key := r.Job.Checkpoint(uint64(h.Number))
	_, err := store.Send(ctx, r.Store, store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.Head(), head.Rev), store.Absent(key)},
		Then: []store.Write{store.Put(key, schema.Encode(h)), r.Offered(h, was)},
	})
	if err != nil {
		return fmt.Errorf("offer checkpoint: %w", err)
	}
	return nil
}
