package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// ErrOtherJob means that the store has no job of this name, or another one. The job is then lost,
// and other records in the store must not be used.
var ErrOtherJob = errors.New("the store does not hold this job")

// Record reads and writes the records of a job's checkpoints: ckpt/ and held/.
type Record struct {
	Store store.Store
	Job   schema.Job
	UID   schema.UID // AdoptJob changes it
	Self  string     // this node; "": an operator
	By    string     // in the events of removed records; "": the agents

	mu sync.Mutex // guards UID after the first use
}

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

// HolderGoneError means that the incarnation of a holder is no longer registered.
type HolderGoneError struct{ Node string }

func (e *HolderGoneError) Error() string {
	return fmt.Sprintf("holder %s is gone: its copy does not count", e.Node)
}

// DecodeHead decodes ckpt/head or ckpt/n/<number>.
func DecodeHead(e *store.Entry) (manifest.Head, error) {
	h, err := schema.Decode[manifest.Head](e)
	h.Rev = e.Rev
	return h, err
}

// Read returns the head, or the zero Head before the first commit, and all recorded checkpoints,
// oldest first. The Rev of each is that of its own key. It fails with ErrOtherJob.
func (r *Record) Read(ctx context.Context) (head manifest.Head, committed []manifest.Head, err error) {
	if _, err := r.fence(ctx); err != nil {
		return manifest.Head{}, nil, err
	}
	// Both "ckpt/head" and "ckpt/n/…" are read at one revision.
	prefix := r.Job.Prefix() + "ckpt/"
	read, err := r.Store.Get(ctx, prefix, store.End(prefix))
	if err != nil {
		return manifest.Head{}, nil, fmt.Errorf("read checkpoints: %w", err)
	}
	for i := range read.Entries {
		e := &read.Entries[i]
		h, err := DecodeHead(e)
		if err != nil {
			return manifest.Head{}, nil, err
		}
		if e.Key == r.Job.Head() {
			head = h
		} else {
			committed = append(committed, h)
		}
	}
	return head, committed, nil
}

// fence reads the newest proposed generation.
func (r *Record) fence(ctx context.Context) (schema.Generation, error) {
	read, err := r.Store.Get(ctx, r.Job.Fence(), "")
	if err != nil {
		return 0, fmt.Errorf("read fence: %w", err)
	}
	e := read.One()
	if e == nil {
		return 0, ErrOtherJob
	}
	u, g, err := schema.ParseFence(e.Value)
	if err == nil && u != r.uid() {
		err = ErrOtherJob
	}
	return g, err
}

// Commit makes a checkpoint the head, with the number after that of seen, and returns the head. h has
// the generation of the workers that wrote the bytes. holders have these bytes, or the parts in
// h.Parts, verified and durable. This node is one of them, and needs no guard.
//
// Errors: ErrFenced if a newer generation was proposed, so another try is useless. store.ErrMoved
// if another checkpoint became the head. *HolderGoneError: commit again without that holder. After
// any other error the result is unknown.
func (r *Record) Commit(
	ctx context.Context, h, seen manifest.Head, holders []membership.Node,
) (manifest.Head, error) {
	h.Number = seen.Number + 1
	h.Copies, h.Holders = len(holders), nil
	guards := []store.Guard{schema.FenceIs(r.Job, r.uid(), h.Generation),
		store.Unchanged(r.Job.Head(), seen.Rev)}
	for _, n := range holders {
		h.Holders = append(h.Holders, n.Ref)
		if n.Node != r.Self {
			guards = append(guards, store.Unchanged(r.Job.Node(n.Node), n.Rev))
		}
	}
	if h.Parts != nil {
		h.Copies = h.CopiesAt(nil, h.HeldBy)
	}
	rev, err := store.Send(ctx, r.Store,
		store.Request{If: guards, Then: append(r.writes(h), history.Tell(r.Job, committedEvent(h)))})
	if errors.Is(err, store.ErrMoved) {
		var again []membership.Node
		if h, again, err = r.failedGuard(ctx, h, seen, holders); again != nil {
			return r.Commit(ctx, h, seen, again)
		}
		rev = h.Rev
	}
	if err != nil {
		return manifest.Head{}, fmt.Errorf("commit: %w", err)
	}
	h.Rev = rev
	return h, nil
}

// writes returns the writes of a new head. The first one proves that the request was applied.
func (r *Record) writes(h manifest.Head) []store.Write {
	v := schema.Encode(h)
	return []store.Write{store.Put(r.Job.Checkpoint(uint64(h.Number)), v), store.Put(r.Job.Head(), v)}
}

// failedGuard finds out which guard of a commit failed. It reads the keys after the commit, because a
// compared value never comes back. A holder that registered again as the same incarnation still
// counts: again then has the holders as registered now.
func (r *Record) failedGuard(
	ctx context.Context, h, seen manifest.Head, holders []membership.Node,
) (_ manifest.Head, again []membership.Node, err error) {
	now, _, err := r.Read(ctx)
	if err != nil {
		return h, nil, err
	}
	if now.Number == h.Number && now.Generation == h.Generation && now.Manifest == h.Manifest {
		return now, nil, nil // this commit succeeded, and its record was removed since
	}
	g, err := r.fence(ctx)
	switch {
	case err != nil:
		return h, nil, err
	case g > h.Generation:
		return h, nil, fmt.Errorf("generation %d, newest is %d: %w", h.Generation, g, chunkstore.ErrFenced)
	case now.Rev != seen.Rev:
		return h, nil, fmt.Errorf("checkpoint %d is the head now: %w", now.Number, store.ErrMoved)
	}
	for i, n := range holders {
		if n.Node == r.Self {
			continue
		}
		read, err := r.Store.Get(ctx, r.Job.Node(n.Node), "")
		if err != nil {
			return h, nil, err
		}
		e := read.One()
		if e == nil {
			return h, nil, &HolderGoneError{n.Node}
		}
		found, err := schema.Decode[membership.Node](e)
		if err != nil {
			return h, nil, err
		}
		if found.Incarnation != n.Incarnation {
			return h, nil, &HolderGoneError{n.Node}
		}
		if e.Rev != n.Rev {
			if again == nil {
				again = slices.Clone(holders)
			}
			again[i].Rev = e.Rev
		}
	}
	if again == nil { // no guard failed: the record of that number belongs to another commit
		return h, nil, store.ErrMoved
	}
	return h, again, nil
}

// Rollback returns the guards and writes with which Propose makes the older checkpoint the head
// again, under a new number. Its record must still exist: without the record, its bytes may be
// removed.
func (r *Record) Rollback(seen, to manifest.Head) (manifest.Head, []store.Guard, []store.Write) {
	guard := store.Unchanged(r.Job.Checkpoint(uint64(to.Number)), to.Rev)
	to = to.Again(seen)
	return to, []store.Guard{guard}, r.writes(to)
}

// Drop removes the records of checkpoints that Surplus chose. It acts for generation g. It fails
// with store.ErrMoved if the head has changed since seen, or if a newer generation was proposed.
func (r *Record) Drop(
	ctx context.Context, g schema.Generation, seen manifest.Head, drop []manifest.Head,
) error {
	const most = store.MaxOps / 2
	for len(drop) > 0 {
		some := drop[:min(most, len(drop))]
		drop = drop[len(some):]
		then := []store.Write{history.Tell(r.Job, deletedEvents(some, r.By)...)}
		for _, h := range some {
			then = append(then, store.Delete(r.Job.Checkpoint(uint64(h.Number))))
		}
		guards := []store.Guard{schema.FenceIs(r.Job, r.uid(), g), store.Unchanged(r.Job.Head(), seen.Rev)}
		if _, err := store.Send(ctx, r.Store, store.Request{If: guards, Then: then}); err != nil {
			return fmt.Errorf("drop records: %w", err)
		}
	}
	return nil
}

// PublishInventory writes held/<node>: the numbers of the checkpoints that are complete on its disk.
// Plans use it as a hint.
func (r *Record) PublishInventory(ctx context.Context, node string, have []manifest.Number) error {
	if have == nil {
		have = []manifest.Number{}
	}
	w := store.Put(r.Job.Held(node), schema.Encode(have))
	if _, err := store.Send(ctx, r.Store, store.Request{Then: []store.Write{w}}); err != nil {
		return fmt.Errorf("publish the inventory: %w", err)
	}
	return nil
}

// Withdraw removes held/<node>: its disk is gone.
func (r *Record) Withdraw(ctx context.Context, node string) error {
	w := store.Delete(r.Job.Held(node))
	if _, err := store.Send(ctx, r.Store, store.Request{Then: []store.Write{w}}); err != nil {
		return fmt.Errorf("tell that nothing is held: %w", err)
	}
	return nil
}

// Holders returns the registered nodes that the record of a checkpoint names.
func (r *Record) Holders(ctx context.Context, n manifest.Number) ([]membership.Ref, error) {
	h, err := r.Of(ctx, n)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range h.Holders {
		names = append(names, x.Node)
	}
	return r.registered(ctx, names)
}

// Of returns the record of a checkpoint, or the zero Head if there is none.
func (r *Record) Of(ctx context.Context, n manifest.Number) (manifest.Head, error) {
	read, err := r.Store.Get(ctx, r.Job.Checkpoint(uint64(n)), "")
	if err != nil {
		return manifest.Head{}, fmt.Errorf("read checkpoint %d: %w", n, err)
	}
	e := read.One()
	if e == nil {
		return manifest.Head{}, nil
	}
	return DecodeHead(e)
}

// Nodes returns all registered nodes, by name.
func (r *Record) Nodes(ctx context.Context) (nodes []membership.Node, err error) {
	read, err := r.Store.Get(ctx, r.Job.Nodes(), store.End(r.Job.Nodes()))
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	for i := range read.Entries {
		n, err := schema.Decode[membership.Node](&read.Entries[i])
		if err != nil {
			return nil, err
		}
		n.Rev = read.Entries[i].Rev
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// InventoryHolders returns the registered nodes whose inventory in held/ has a checkpoint.
func (r *Record) InventoryHolders(ctx context.Context, n manifest.Number) ([]membership.Ref, error) {
	names, err := r.Inventories(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.registered(ctx, names)
}

// Inventories returns the nodes whose inventory in held/ has a checkpoint, also nodes that have
// left.
func (r *Record) Inventories(ctx context.Context, n manifest.Number) (names []string, err error) {
	return r.inventories(ctx, func(have []manifest.Number) bool { return slices.Contains(have, n) })
}

// WithDisk returns the nodes that have an inventory, be it empty: all whose disk is not gone, also
// nodes that have left.
func (r *Record) WithDisk(ctx context.Context) (names []string, err error) {
	return r.inventories(ctx, func([]manifest.Number) bool { return true })
}

// inventories returns the nodes with an inventory that fits.
func (r *Record) inventories(
	ctx context.Context, fits func(have []manifest.Number) bool,
) (names []string, err error) {
	read, err := r.Store.Get(ctx, r.Job.AllHeld(), store.End(r.Job.AllHeld()))
	if err != nil {
		return nil, fmt.Errorf("read holders: %w", err)
	}
	for i := range read.Entries {
		e := &read.Entries[i]
		rest := schema.Rest(r.Job.AllHeld(), e.Key)
		have, err := schema.Decode[[]manifest.Number](e)
		if err == nil && len(rest) == 1 && fits(have) {
			names = append(names, rest[0])
		}
	}
	return names, nil
}

// registered returns the nodes of these names that are registered, by name.
func (r *Record) registered(ctx context.Context, names []string) (refs []membership.Ref, err error) {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		read, err := r.Store.Get(ctx, r.Job.Node(name), "")
		if err != nil {
			return nil, fmt.Errorf("read holders: %w", err)
		}
		if e := read.One(); e != nil {
			x, err := schema.Decode[membership.Node](e)
			if err != nil {
				return nil, err
			}
			refs = append(refs, x.Ref)
		}
	}
	slices.SortFunc(refs, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return refs, nil
}
