package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/pkg/membership"
)

// uid is the job's.
func (r *Record) uid() keys.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.UID
}

func (r *Record) succeed(u keys.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.UID = u
}

// Succeed: the job was made again under the uid u, after its store was lost, and adopted what had the
// number adopted there; 0: nothing. No line is open. A newer checkpoint that this disk alone has is kept,
// and offered as soon as the record has a head: nobody starts from it who did not ask for it.
func (k *Keeper) Succeed(u keys.UID, adopted Number) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Record.succeed(u)
	k.told, k.toldAs = nil, 0 // revisions of another store say nothing in this one
	if h, ok := k.Store.Newest(); ok && h.Number > adopted {
		k.late = &h
	}
}

// offer puts the checkpoint that came too late into the record. Until it is seen there, by this node or by
// another one that has it, nothing is removed here.
func (k *Keeper) offer(ctx context.Context, head Head, committed []Head) (seen bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.late == nil || slices.ContainsFunc(committed, func(h Head) bool { return h.Manifest == k.late.Manifest }) {
		k.late = nil
		return true, nil
	}
	late := *k.late
	k.mu.Unlock()
	err = k.Record.Offer(ctx, late, head, committed, k.Self)
	k.mu.Lock()
	if errors.Is(err, keys.ErrMoved) || errors.Is(err, errNoNumber) {
		err = nil // at the next look
	}
	return false, err
}

var errNoNumber = errors.New("no number below the head is free")

// Offer records a checkpoint of before the store was lost, under a free number below the head's: the
// numbers above are those of commits to come.
func (r *Record) Offer(ctx context.Context, h, head Head, committed []Head, self string) error {
	was := h.Number
	taken := func(n Number) bool {
		return n == 0 || n >= head.Number || slices.ContainsFunc(committed, func(c Head) bool { return c.Number == n })
	}
	for n := head.Number; n > 0 && taken(h.Number); n-- {
		h.Number = n - 1
	}
	if taken(h.Number) {
		return errNoNumber
	}
	h.Holders, h.Copies, h.Offered = []membership.Ref{{Node: self}}, 1, true
	key := r.Job.Checkpoint(uint64(h.Number))
	_, err := keys.Send(ctx, r.Store, keys.Request{
		If:   []keys.Guard{keys.Unchanged(r.Job.Head(), head.Rev), keys.Absent(key)},
		Then: []keys.Write{keys.Put(key, keys.Encode(h)), r.Offered(h, was)},
	})
	if err != nil {
		return fmt.Errorf("offer checkpoint: %w", err)
	}
	return nil
}
