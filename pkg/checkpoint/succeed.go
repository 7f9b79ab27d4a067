package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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

// lateFile has the record of a checkpoint that came too late, until it is offered: whatever becomes of the process.
const lateFile = "late"

// KeepLate comes before the store in dir becomes that of a job that was made again, and adopted there what had the number
// adopted; 0: nothing. A newer commit that this disk has is kept, and offered as soon as the record has a head:
// nobody starts from it who did not ask for it.
func KeepLate(dir string, adopted Number) error {
	t, err := openTree(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep what came too late: %w", err)
	}
	return errors.Join(keepLate(t, adopted), t.Close())
}

func keepLate(t tree, adopted Number) error {
	s := newShelf(t)
	s.disk.scratch = tempDir + "/late-" // beside those of the owner
	heads, err := s.heads()
	if err != nil {
		return err
	}
	held, err := s.Held()
	if err != nil {
		return err
	}
	for _, h := range reversed(heads) {
		if h.Number <= adopted {
			break
		}
		if slices.Contains(held, h.Manifest) {
			b, err := json.Marshal(h)
			if err != nil {
				return err
			}
			return s.disk.writeFile(".", lateFile, b)
		}
	}
	return nil
}

// late reads lateFile; nil if there is none.
func (s *Store) late() (*Head, error) {
	b, err := s.disk.readFile(lateFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var h Head
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		return nil, fmt.Errorf("read what came too late: %w", err)
	}
	return &h, nil
}

// Succeed: the job was made again under the uid u, after its store was lost, and after KeepLate. No line is open.
func (k *Keeper) Succeed(u schema.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Record.succeed(u)
	k.told, k.toldAs = nil, 0 // revisions of another store say nothing in this one
	k.late, k.looked = nil, false
}

// offer puts the checkpoint that came too late into the record. Until it is seen there, by this node or by
// another one that has it, nothing is removed here.
func (k *Keeper) offer(ctx context.Context, head Head, committed []Head) (seen bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.looked {
		if k.late, err = k.Store.late(); err != nil {
			return false, err
		}
		k.looked = true
	}
	if k.late == nil {
		return true, nil
	}
	if slices.ContainsFunc(committed, func(h Head) bool { return h.Manifest == k.late.Manifest }) {
		k.late = nil
		return true, k.Store.disk.discard(lateFile)
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
	_, err := store.Send(ctx, r.Store, store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.Head(), head.Rev), store.Absent(key)},
		Then: []store.Write{store.Put(key, schema.Encode(h)), r.Offered(h, was)},
	})
	if err != nil {
		return fmt.Errorf("offer checkpoint: %w", err)
	}
	return nil
}
