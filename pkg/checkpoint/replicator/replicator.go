// Package replicator maintains the checkpoints of one node. It fetches the checkpoint from which a
// generation starts, copies checkpoints to other nodes, and removes those that are not in the
// record.
package replicator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Replicator connects the disk of a node, its peers and the record of the job.
type Replicator struct {
	Store    *chunkstore.Store
	Peers    transfer.Peers
	Record   *checkpoint.Record
	Self     string      // this node
	Replicas int         // copies wanted, with that of this node
	Keep     int         // number of checkpoints to keep
	Report   func(Event) // must not block; several goroutines call it

	mu          sync.Mutex
	nodes       []membership.Node
	away        []membership.Node    // nodes that lost their registration, newest last
	late        map[string]time.Time // nodes that did not answer when they were sent a copy
	moved       chan struct{}        // closed when nodes change
	resume      []manifest.Hash      // the checkpoint of the newest world
	brought     *manifest.Head       // the checkpoint of an earlier job on this disk
	looked      bool                 // findBrought has run
	published   []manifest.Number    // the inventory in held/, written for the registration publishedAs
	publishedAs int64
	withdrawn   bool // the inventory was removed, because the disk is gone
	// partsFrom is the oldest part on this disk that may still be committed.
	partsFrom manifest.Position
}

// Nodes sets the registered nodes, including this one.
func (r *Replicator) Nodes(nodes []membership.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(nodes)
}

// set is Nodes with the lock held.
func (r *Replicator) set(nodes []membership.Node) {
	for _, n := range r.nodes {
		if !slices.ContainsFunc(nodes, func(o membership.Node) bool { return o.Same(n.Ref) }) {
			earlier := func(o membership.Node) bool { return o.Node == n.Node }
			r.away = append(slices.DeleteFunc(r.away, earlier), n)
		}
	}
	r.away = slices.DeleteFunc(r.away, func(n membership.Node) bool {
		return slices.ContainsFunc(nodes, func(o membership.Node) bool { return o.Node == n.Node })
	})
	r.away = r.away[max(0, len(r.away)-maxAway):]
	r.nodes = slices.Clone(nodes)
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
}

// maxAway is how many nodes without a registration are remembered.
const maxAway = 8

// View returns the nodes, and a channel that is closed when they change.
func (r *Replicator) View() ([]membership.Node, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == nil {
		r.moved = make(chan struct{})
	}
	return r.nodes, r.moved
}

// Fresh is View. After an outage of the store the view may be old: if it has too few nodes for the copies,
// the nodes of the record become the view, unless it changed while they were read.
func (r *Replicator) Fresh(ctx context.Context) ([]membership.Node, <-chan struct{}) {
	nodes, moved := r.View()
	if len(nodes) >= r.Replicas {
		return nodes, moved
	}
	now, err := r.Record.Nodes(ctx)
	r.mu.Lock()
	same := slices.EqualFunc(now, r.nodes, func(a, b membership.Node) bool { return a.Same(b.Ref) })
	if err == nil && r.moved == moved && !same {
		r.set(now)
	}
	r.mu.Unlock()
	return r.View()
}

// me returns the registration of this node.
func (r *Replicator) me() (membership.Node, bool) {
	nodes, _ := r.View()
	for _, n := range nodes {
		if n.Node == r.Self {
			return n, true
		}
	}
	return membership.Node{}, false
}

const (
	tidyPause  = 300 * time.Millisecond // after a change on this disk, because its commit follows
	tidyLater  = 5 * time.Second        // while a save on this disk waits for its commit
	tidyFailed = 2 * time.Second
	tidyEvery  = 30 * time.Second // other nodes commit and remove checkpoints too
)

// Run keeps this disk and held/ consistent with the record, until ctx ends. It records commits on
// this disk, and removes what the record no longer needs.
func (r *Replicator) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Now()
	wait := func(d time.Duration) { due = time.Now().Add(d); timer.Reset(d) }
	soon := func() { // saves in quick succession do not delay it
		if time.Until(due) > tidyPause {
			wait(tidyPause)
		}
	}
	for {
		_, moved := r.View()
		select {
		case <-ctx.Done():
			return nil
		case <-r.Store.Changed():
			soon()
		case <-r.Store.Incoming():
			wait(0)
		case <-moved:
			soon()
		case <-timer.C:
			r.forgetSignals()
			wait(r.tidyNow(ctx))
		}
	}
}

// forgetSignals takes the signals of changes that the next Tidy sees anyway.
func (r *Replicator) forgetSignals() {
	for {
		select {
		case <-r.Store.Changed():
		case <-r.Store.Incoming():
		default:
			return
		}
	}
}

// tidyNow calls Tidy, and returns the pause before the next call.
func (r *Replicator) tidyNow(ctx context.Context) time.Duration {
	switch err := r.Tidy(ctx); {
	case errors.Is(err, ErrStoreBehind):
		r.Report(Behind{})
		return tidyFailed
	case err != nil:
		return tidyFailed
	case r.Store.HasUncommitted():
		return tidyLater
	}
	return tidyEvery
}

// Tidy reads the record, and updates this disk and held/.
func (r *Replicator) Tidy(ctx context.Context) error {
	seen := r.Store.Generation() // before the record is read: see chunkstore.Store.Retain
	if err := r.findBrought(); err != nil {
		// the other nodes use the inventory, also that of a disk that is gone
		return errors.Join(err, r.publishInventory(ctx))
	}
	head, committed, err := r.Read(ctx)
	if err != nil {
		return err
	}
	if begun, err := r.dropBrought(head, committed); err != nil || !begun {
		return errors.Join(err, r.publishInventory(ctx))
	}
	err = r.dropParts()
	if err == nil {
		err = r.Store.Retain(seen, committed, r.pinned(head), time.Now())
	}
	return errors.Join(err, r.publishInventory(ctx)) // also after an error: the other nodes use the inventory
}

// publishInventory writes the inventory to held/, if it or the registration has changed. If the disk is
// gone, it removes the inventory.
func (r *Replicator) publishInventory(ctx context.Context) error {
	me, ok := r.me()
	have, gone := r.Store.Numbers(), r.Store.Abandoned() != nil
	r.mu.Lock()
	same := r.publishedAs == me.Rev && r.withdrawn == gone && slices.Equal(r.published, have)
	r.mu.Unlock()
	if !ok || same {
		return nil
	}
	var err error
	if gone {
		err = r.Record.Withdraw(ctx, r.Self)
	} else {
		err = r.Record.PublishInventory(ctx, r.Self, have)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published, r.publishedAs, r.withdrawn = have, me.Rev, gone
	return nil
}

// DropSurplus removes surplus records. Rank 0's agent calls it after a commit. The disks follow
// later.
func (r *Replicator) DropSurplus(ctx context.Context, g schema.Generation) error {
	head, committed, err := r.Read(ctx)
	if err != nil {
		return err
	}
	retention := checkpoint.Retention{Keep: r.Keep, Replicas: r.Replicas, Pinned: r.pinned(head)}
	return r.Record.Drop(ctx, g, head, retention.Surplus(committed, head))
}

// pinned returns the checkpoints that stay although they may be older than the newest Keep: the head,
// and the checkpoint from which the newest world started.
func (r *Replicator) pinned(head manifest.Head) []manifest.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.resume), head.Manifest)
}

// KeepPartsFrom sets the position of the oldest part that may still be committed.
func (r *Replicator) KeepPartsFrom(p manifest.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partsFrom = p
}

// dropParts removes parts that can no longer be committed.
func (r *Replicator) dropParts() error {
	r.mu.Lock()
	from := r.partsFrom
	r.mu.Unlock()
	return r.Store.DropParts(from)
}
