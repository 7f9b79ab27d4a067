// Package memory is an etcd in memory, for simulations. Its revisions, guards, ranges, leases,
// watches and compaction are those of a real one; both pass pkg/store/storetest. It has no sockets,
// no goroutines of its own, and no clock but package time, so it works inside a testing/synctest
// bubble.
//
// Each process under test has its own Client, which decides what happens to its requests. A request
// may be lost, applied without an answer, or applied much later. The watches of a process may go
// silent, and the process may be cut off or stopped. The Cluster itself can be frozen, down, full,
// wiped, or set back to a backup.
package memory

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// MinTTL is the shortest lease, that of an etcd with default timing.
const MinTTL = 2 * time.Second

var (
	// ErrOtherCluster ends the watches of a cluster that was wiped or set back.
	ErrOtherCluster = errors.New("another etcd cluster answers")
	// ErrNoSpace is the answer to writes of a full cluster.
	ErrNoSpace = errors.New("database space exceeded")
	// ErrDown is the answer of a cluster that does not run.
	ErrDown = errors.New("connection refused")
)

// refusal is a final error, which a repeated request would get again.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }
func (refusal) Refused() bool   { return true }

type state int

const (
	up state = iota
	frozen
	down
)

// Cluster is one etcd. The entries that it returns share their values, so callers must not change
// them.
type Cluster struct {
	mu        sync.Mutex // guards everything here, in leases, watches and clients; never held while waiting
	id        uint64
	rev       int64
	compacted int64
	entries   []store.Entry  // in the order of their keys
	history   []store.Change // of the revisions from compacted on
	leases    map[store.Lease]*lease
	lastLease store.Lease
	watches   []*watch
	state     state
	full      bool
	shared    func(key string) bool
	spread    bool
	held      []*request // arrived while frozen
}

// New makes an empty cluster at revision 1, as etcd does.
func New() *Cluster {
	return &Cluster{id: 1, rev: 1, leases: map[store.Lease]*lease{}, lastLease: 1000}
}

// Rev is the revision of the newest change.
func (c *Cluster) Rev() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rev
}

// History returns all changes from revision from on that were not compacted.
func (c *Cluster) History(from int64) []store.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.since(from))
}

// Read returns the entries of the ranges now, despite any fault.
func (c *Cluster) Read(ranges ...store.Range) store.Read {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := store.Read{Rev: c.rev, Cluster: c.id}
	for _, x := range ranges {
		lo, hi := c.span(x.From, x.End)
		r.Entries = append(r.Entries, c.entries[lo:hi]...)
	}
	return r
}

// Is reports whether the cluster has that id, and its newest change that revision.
func (c *Cluster) Is(id uint64, rev int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id == id && c.rev == rev
}

func (c *Cluster) since(from int64) []store.Change {
	i, _ := slices.BinarySearchFunc(c.history, from,
		func(h store.Change, r int64) int { return cmp.Compare(h.Rev, r) })
	return c.history[i:]
}

// Compact deletes the history before revision rev. A watch that is behind it, or is opened there
// later, ends with store.ErrCompacted.
func (c *Cluster) Compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compacted = max(c.compacted, min(rev, c.rev))
	c.history = slices.Clone(c.since(c.compacted))
	for _, w := range c.watches {
		if len(w.pending) > 0 && w.pending[0].Rev < c.compacted && w.client.deafened() {
			w.end(store.ErrCompacted)
		}
	}
}

// Full sets whether the cluster refuses puts and new leases, like an etcd out of space.
func (c *Cluster) Full(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = on
}

// Share lets all readers of a record share its decoded form, for records that are written from now
// on and whose key of accepts. Readers must not change it.
func (c *Cluster) Share(of func(key string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = of
}

// Spread makes each watch that is opened from now on deliver every change some nanoseconds later,
// with a different delay for each watch. So the effects of one change do not all happen at the same
// time, in an order that depends on the scheduler.
func (c *Cluster) Spread() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spread = true
}

// Freeze stops the cluster like an etcd after SIGSTOP: requests hang, and are applied after Thaw.
// Leases that expire in the meantime are revoked first, even if their holders are healthy.
func (c *Cluster) Freeze() { c.turn(frozen) }

// Thaw ends Freeze.
func (c *Cluster) Thaw() { c.turn(up) }

// Down stops the cluster: requests fail at once, and hanging ones are lost. No answered request is
// lost.
func (c *Cluster) Down() { c.turn(down) }

// Up starts it again. Like a new leader, it extends every lease to its full duration.
func (c *Cluster) Up() { c.turn(up) }

func (c *Cluster) turn(to state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.state
	c.state = to
	held := c.held
	c.held = nil
	switch {
	case to == frozen:
		c.held = held
	case to == up && from != up:
		if from == down {
			c.extendLeases()
		} else {
			c.expireLeases()
		}
		for _, r := range held {
			c.arrive(r)
		}
		c.wakeWatches()
	}
}

// Wipe replaces the cluster with an empty one.
func (c *Cluster) Wipe() { c.Restore(New().Backup()) }

// Backup is the state of a cluster at one moment.
type Backup struct {
	rev     int64
	entries []store.Entry
	leases  map[store.Lease]time.Duration
}

// Backup copies the state, as a snapshot of etcd does.
func (c *Cluster) Backup() Backup {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := Backup{rev: c.rev, entries: slices.Clone(c.entries), leases: map[store.Lease]time.Duration{}}
	for id, l := range c.leases {
		b.leases[id] = l.ttl
	}
	return b
}

// Restore replaces the cluster with a new one that has a new id and continues from the revision of
// b. Requests under way are lost, and watches end.
func (c *Cluster) Restore(b Backup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id++
	c.load(b)
	for _, w := range c.watches {
		w.end(ErrOtherCluster)
	}
}

// SetBack replaces the data of the cluster with an older copy, and keeps the id. Requests under way
// are lost. Watches end, because the revision is below the one that they have delivered.
func (c *Cluster) SetBack(b Backup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.rev < c.rev {
		for _, w := range c.watches {
			w.end(store.ErrCompacted)
		}
	}
	c.load(b)
}

// load sets the state to that of b.
func (c *Cluster) load(b Backup) {
	for _, l := range c.leases {
		l.timer.Stop()
	}
	c.rev, c.compacted = b.rev, 0
	if b.rev > 1 {
		c.compacted = b.rev + 1
	}
	c.entries, c.history, c.held = slices.Clone(b.entries), nil, nil
	c.leases = map[store.Lease]*lease{}
	for _, id := range slices.Sorted(maps.Keys(b.leases)) {
		c.newLease(id, b.leases[id])
	}
	for _, e := range c.entries {
		if l := c.leases[e.Lease]; l != nil {
			l.keys[e.Key] = true
		}
	}
}
