package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Event is what a Keeper reports: Committed, Refused, Moving, Closed, Sharded or Behind.
type Event interface{ event() }

// Committed says that a checkpoint is saved: it was read back as the head.
type Committed struct {
	Head  manifest.Head
	Took  time.Duration // since the save was seen
	Entry string
}

// Refused says that a save was not taken, and never will be.
type Refused struct {
	Generation schema.Generation
	capture.Refusal
}

// Moving says how far bytes are: "replicate", "fetch".
type Moving struct {
	What        string
	Done, Total int64
}

// Closed is the last event of a Line: everything it captured was committed, or
// refused for good, unless Err says what stopped it.
type Closed struct {
	Generation schema.Generation
	Err        error
	Left       *manifest.Manifest // captured, neither committed nor refused: CommitLeft may still commit it
}

// Behind says that the store shows an older head than this node knows.
type Behind struct{}

// Sharded says that the saves of a generation were found to be of a shard format: each node captures its part.
type Sharded struct {
	Generation schema.Generation
	Format     string
}

func (e Sharded) String() string {
	return fmt.Sprintf("saves are shards of %s: each node saves its part (--save-from=all); if rank 0 writes all of a save, run with --save-from=rank0", e.Format)
}

func (Sharded) event()   {}
func (Behind) event()    {}
func (Committed) event() {}
func (Refused) event()   {}
func (Moving) event()    {}
func (Closed) event()    {}

// Keeper joins a node's store, its peers and the record: it carries saves to
// commits, and brings the checkpoint to resume from.
type Keeper struct {
	Store    *chunkstore.Store
	Peers    transfer.Peers
	Record   *Record
	Self     string      // this node
	Replicas int         // copies wanted, with ours
	Keep     int         // checkpoints kept
	Report   func(Event) // must not block; called by several goroutines

	mu     sync.Mutex
	nodes  []membership.Node
	away   []membership.Node // that were registered, newest last; they may still answer
	moved  chan struct{}     // closed when nodes change
	resume []manifest.Hash   // what the newest world resumes from
	late   *manifest.Head    // on this disk, and newer than what the job was made again from
	looked bool              // whether there is one
	told   []manifest.Number // what held/ says, as of the registration toldAs
	toldAs int64
	newest manifest.Number // of the commits that were read of this job
	// partsFrom is the oldest part of a save on this disk that may still be committed.
	partsFrom manifest.Position
}

// Nodes says who is registered now, this node among them.
func (k *Keeper) Nodes(nodes []membership.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.nodes {
		if !has(nodes, n) {
			k.away = append(slices.DeleteFunc(k.away, func(o membership.Node) bool { return o.Node == n.Node }), n)
		}
	}
	k.away = slices.DeleteFunc(k.away, func(n membership.Node) bool {
		return slices.ContainsFunc(nodes, func(o membership.Node) bool { return o.Node == n.Node })
	})
	k.away = k.away[max(0, len(k.away)-maxAway):]
	k.nodes = slices.Clone(nodes)
	if k.moved != nil {
		close(k.moved)
		k.moved = nil
	}
}

// maxAway is how many nodes are remembered that are not registered any more.
const maxAway = 8

// CopyAway puts copies of a checkpoint onto nodes that lost their registration and still answer: cut
// from the store of the job, they are no holders of a commit, and their disks are as good as others.
func (k *Keeper) CopyAway(ctx context.Context, g schema.Generation, h manifest.Hash) error {
	k.mu.Lock()
	to := slices.Clone(k.away)
	k.mu.Unlock()
	if len(to) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, awayLimit)
	defer cancel()
	c := transfer.Copier{Store: k.Store, Peers: k.Peers}
	_, err := c.Replicate(ctx, max(g, k.Store.Generation()), h, to, nil)
	return err
}

const awayLimit = 30 * time.Second

// view returns the nodes, and a channel that is closed when they change.
func (k *Keeper) view() ([]membership.Node, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.moved == nil {
		k.moved = make(chan struct{})
	}
	return k.nodes, k.moved
}

func (k *Keeper) me() (membership.Node, bool) {
	nodes, _ := k.view()
	for _, n := range nodes {
		if n.Node == k.Self {
			return n, true
		}
	}
	return membership.Node{}, false
}

const (
	tidyPause  = 300 * time.Millisecond // after a change on this disk: its commit follows
	tidyLater  = 5 * time.Second        // while something here waits for its commit
	tidyFailed = 2 * time.Second
	tidyEvery  = 30 * time.Second // others commit, and drop, what we only hold
)

// Run keeps this disk and held/ in step with the record, until ctx ends: what
// was committed is noted and told, what nobody needs any more is removed.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		_, moved := k.view()
		select {
		case <-ctx.Done():
			return nil
		case <-k.Store.Changed():
			timer.Reset(tidyPause)
		case <-moved:
			timer.Reset(tidyPause)
		case <-timer.C:
			switch err := k.tidy(ctx); {
			case errors.Is(err, ErrStoreBehind):
				k.Report(Behind{})
				timer.Reset(tidyFailed)
			case err != nil:
				timer.Reset(tidyFailed)
			case k.Store.HasUncommitted():
				timer.Reset(tidyLater)
			default:
				timer.Reset(tidyEvery)
			}
		}
	}
}

// tidy reads the record once, and acts on it.
func (k *Keeper) tidy(ctx context.Context) error {
	seen := k.Store.Generation() // before the record is read: see garbage
	if err := k.findLate(); err != nil {
		return err
	}
	head, committed, err := k.read(ctx)
	if err != nil {
		return err
	}
	if offered, err := k.offer(ctx, head, committed); err != nil || !offered {
		return errors.Join(err, k.tell(ctx))
	}
	if err := k.dropParts(); err != nil {
		return err
	}
	if err := k.Store.Retain(seen, committed, k.pinned(head), time.Now()); err != nil {
		return err
	}
	return k.tell(ctx)
}

// tell writes held/, if it says something else or belongs to an earlier registration.
func (k *Keeper) tell(ctx context.Context) error {
	me, ok := k.me()
	have := k.Store.Numbers()
	k.mu.Lock()
	same := k.toldAs == me.Rev && slices.Equal(k.told, have)
	k.mu.Unlock()
	if !ok || same {
		return nil
	}
	if err := k.Record.Hold(ctx, k.Self, have); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told, k.toldAs = have, me.Rev
	return nil
}

// drop removes surplus records, as rank 0's agent does after a commit. The disks follow.
func (k *Keeper) drop(ctx context.Context, g schema.Generation) error {
	head, committed, err := k.read(ctx)
	if err != nil {
		return err
	}
	return k.Record.Drop(ctx, g, head, Retention{k.Keep, k.Replicas, k.pinned(head)}.Surplus(committed, head))
}

func (k *Keeper) pinned(head manifest.Head) []manifest.Hash {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(slices.Clone(k.resume), head.Manifest)
}

// Prepare brings the checkpoint that a generation g resumes from onto this
// disk, verified, and its files into dir. It returns the path that workers
// resume from, and what was put back. What is damaged here is fetched again.
// ErrNotHeld: nobody who is registered has all of it.
func (k *Keeper) Prepare(ctx context.Context, g schema.Generation, n manifest.Number, h manifest.Hash, dir capture.Dir) (string, *manifest.Manifest, error) {
	t, err := dir.Open()
	if err != nil {
		return "", nil, fmt.Errorf("prepare: %w", err)
	}
	defer t.Close()
	entry, m, err := k.prepareTree(ctx, g, n, h, t, dir)
	if err != nil {
		return "", nil, fmt.Errorf("prepare: %w", err)
	}
	return filepath.Join(dir.Path, filepath.FromSlash(entry)), m, nil
}

func (k *Keeper) prepareTree(ctx context.Context, g schema.Generation, n manifest.Number, h manifest.Hash, t dirfs.FS, dir capture.Dir) (string, *manifest.Manifest, error) {
	if err := k.Store.Raise(g); err != nil {
		return "", nil, err
	}
	k.mu.Lock()
	k.resume = []manifest.Hash{h}
	k.mu.Unlock()
	for again := false; ; again = true {
		if !k.Store.Has(h) || again {
			if err := k.fetch(ctx, g, n, h); err != nil {
				return "", nil, err
			}
		}
		m, err := k.Store.RestoreTo(ctx, h, t)
		if errors.Is(err, chunkstore.ErrDamaged) && !again {
			continue // what is bad was noted: a fetch brings just that
		}
		if err != nil {
			return "", nil, err
		}
		if err := k.noteResume(n, h, m); err != nil {
			return "", nil, err
		}
		return m.Entry, m, capture.SetAside(k.Store, t, dir, m)
	}
}

// noteResume notes that the checkpoint was committed: a claim of this node names it.
func (k *Keeper) noteResume(n manifest.Number, h manifest.Hash, m *manifest.Manifest) error {
	return k.Store.AddCommitted(manifest.Head{Number: n, Generation: m.Generation, Manifest: h, Step: m.Step, Samples: m.Samples,
		Bytes: m.Bytes(), Time: m.Time, Copies: 1, Holders: []membership.Ref{{Node: k.Self}}})
}

// Entry is where another node's Prepare puts what workers resume from, when dir
// is that one's directory too: nothing is fetched, nothing is written.
func (k *Keeper) Entry(ctx context.Context, n manifest.Number, h manifest.Hash, dir string) (string, error) {
	c := transfer.Copier{Store: k.Store, Peers: k.Peers}
	for _, all := range []bool{false, true} {
		from, err := k.Record.Holders(ctx, n, all)
		if err != nil {
			return "", fmt.Errorf("find what to resume from: %w", err)
		}
		raw, err := c.Manifest(ctx, h, slices.DeleteFunc(from, func(r membership.Ref) bool { return r.Node == k.Self }))
		if err == nil {
			m, err := manifest.Decode(raw)
			if err != nil {
				return "", fmt.Errorf("find what to resume from: %w", err)
			}
			return filepath.Join(dir, filepath.FromSlash(m.Entry)), nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	return "", fmt.Errorf("find what to resume from: manifest %v: %w", h, chunkstore.ErrNotHeld)
}

// fetch asks the holders of the record, and if these do not have it any more, all who say that they do.
func (k *Keeper) fetch(ctx context.Context, g schema.Generation, n manifest.Number, h manifest.Hash) error {
	var errs []error
	for _, all := range []bool{false, true} {
		from, err := k.Record.Holders(ctx, n, all)
		if err != nil {
			return err
		}
		from = slices.DeleteFunc(from, func(r membership.Ref) bool { return r.Node == k.Self })
		c := transfer.Copier{Store: k.Store, Peers: k.Peers}
		err = c.Fetch(ctx, g, h, from, func(done, total int64) { k.Report(Moving{"fetch", done, total}) })
		if err == nil || ctx.Err() != nil || !errors.Is(err, chunkstore.ErrNotHeld) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Spread makes sure that n nodes besides this one hold the checkpoint, or as
// many as there are: after a commit with a single copy, and before this node
// leaves. It acts in g, or in the newest generation that this node has seen:
// the checkpoint may be older.
func (k *Keeper) Spread(ctx context.Context, g schema.Generation, h manifest.Hash, n int) error {
	g = max(g, k.Store.Generation())
	var failed []string
	held := 0
	for {
		nodes, _ := k.view()
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(x membership.Node) bool { return slices.Contains(failed, x.Node) })
		to := transfer.Targets(nodes, k.Self, n)
		if held >= len(to) {
			if len(to) < n && len(failed) > 0 {
				return fmt.Errorf("checkpoint %v: %d copies elsewhere, %d wanted; no answer from %v", h, held, n, failed)
			}
			return nil
		}
		got, err := k.replicate(ctx, g, h, to)
		if ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced) {
			return err
		}
		held = len(got)
		for _, x := range to {
			if !slices.ContainsFunc(got, func(y membership.Node) bool { return y.Node == x.Node }) {
				failed = append(failed, x.Node)
			}
		}
	}
}

// replicate is Copier.Replicate, cut short when one of the targets is gone from the view.
func (k *Keeper) replicate(ctx context.Context, g schema.Generation, h manifest.Hash, to []membership.Node) ([]membership.Node, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for {
			nodes, moved := k.view()
			for _, x := range to {
				if !slices.ContainsFunc(nodes, func(n membership.Node) bool { return n.Same(x.Ref) }) {
					cancel()
				}
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
	})
	c := transfer.Copier{Store: k.Store, Peers: k.Peers}
	return c.Replicate(ctx, g, h, to, func(done, total int64) { k.Report(Moving{"replicate", done, total}) })
}
