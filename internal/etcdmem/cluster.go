// Package etcdmem is an etcd in memory, for simulations: revisions, guards,
// ranges, leases, watches and compaction as a real one has them (both pass
// internal/keys/storetest), without sockets, goroutines of its own or any
// clock but package time, so that it works inside a testing/synctest bubble.
//
// Each process under test has its own Client, and what may happen to a
// request happens there: it is lost, applied with its answer lost, applied
// much later; its watches go deaf; the process is cut off or stopped. The
// Cluster itself can be frozen, be down, full, wiped or set back to a backup.
package etcdmem

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/keys"
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

// refusal is an answer that asking again does not change.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }
func (refusal) Refused() bool   { return true }

type state int

const (
	up state = iota
	frozen
	down
)

// Cluster is one etcd. Entries that it returns share their values: nobody
// changes them.
type Cluster struct {
	mu        sync.Mutex // guards everything here, in leases, watches and clients; never held while waiting
	id        uint64
	rev       int64
	compacted int64
	entries   []keys.Entry  // in the order of their keys
	history   []keys.Change // of the revisions from compacted on
	leases    map[keys.Lease]*lease
	lastLease keys.Lease
	watches   []*watch
	state     state
	full      bool
	held      []*request // arrived while frozen
}

// New makes an empty cluster at revision 1, as etcd does.
func New() *Cluster {
	return &Cluster{id: 1, rev: 1, leases: map[keys.Lease]*lease{}, lastLease: 1000}
}

// Rev is the revision of the newest change.
func (c *Cluster) Rev() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rev
}

// History returns all changes from revision from on that were not compacted.
func (c *Cluster) History(from int64) []keys.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.since(from))
}

func (c *Cluster) since(from int64) []keys.Change {
	i, _ := slices.BinarySearchFunc(c.history, from, func(h keys.Change, r int64) int { return cmp.Compare(h.Rev, r) })
	return c.history[i:]
}

// Compact forgets the changes before revision rev. A watch that is behind, and
// one that is opened there later, ends with keys.ErrCompacted.
func (c *Cluster) Compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compacted = max(c.compacted, min(rev, c.rev))
	c.history = slices.Clone(c.since(c.compacted))
	for _, w := range c.watches {
		if len(w.pending) > 0 && w.pending[0].Rev < c.compacted && w.client.deafened() {
			w.end(keys.ErrCompacted)
		}
	}
}

// Full makes the cluster refuse puts and new leases, like an etcd out of
// space, or take them again.
func (c *Cluster) Full(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = on
}

// Freeze stops the cluster as SIGSTOP stops an etcd: requests hang and are
// applied after Thaw. Leases whose time has passed by then are revoked before
// that, however healthy their holders are.
func (c *Cluster) Freeze() { c.turn(frozen) }

// Thaw ends Freeze.
func (c *Cluster) Thaw() { c.turn(up) }

// Down kills the cluster: requests fail at once, those that hang are lost.
// Nothing that was answered is.
func (c *Cluster) Down() { c.turn(down) }

// Up starts it again. Like a new leader, it gives every lease its full time.
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
		c.wakeLeases(from == down)
		for _, r := range held {
			c.arrive(r)
		}
		c.wakeWatches()
	}
}

// Wipe replaces the cluster by an empty one at the same address.
func (c *Cluster) Wipe() { c.Restore(New().Backup()) }

// Backup is the state of a cluster at one moment.
type Backup struct {
	rev     int64
	entries []keys.Entry
	leases  map[keys.Lease]time.Duration
}

// Backup copies the state, as a snapshot of etcd does.
func (c *Cluster) Backup() Backup {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := Backup{rev: c.rev, entries: slices.Clone(c.entries), leases: map[keys.Lease]time.Duration{}}
	for id, l := range c.leases {
		b.leases[id] = l.ttl
	}
	return b
}

// Restore replaces the cluster by a new one, with a new id, that goes on at
// the old revision of b. What is under way is lost, watches end.
func (c *Cluster) Restore(b Backup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.leases {
		l.timer.Stop()
	}
	c.id++
	c.rev, c.compacted = b.rev, 0
	if b.rev > 1 {
		c.compacted = b.rev + 1
	}
	c.entries, c.history, c.held = slices.Clone(b.entries), nil, nil
	c.leases = map[keys.Lease]*lease{}
	for _, id := range slices.Sorted(maps.Keys(b.leases)) {
		c.newLease(id, b.leases[id])
	}
	for _, e := range c.entries {
		if l := c.leases[e.Lease]; l != nil {
			l.keys[e.Key] = true
		}
	}
	for _, w := range c.watches {
		w.end(ErrOtherCluster)
	}
}

// span returns the bounds of [key, end) in the entries.
func (c *Cluster) span(key, end string) (lo, hi int) {
	at := func(k string) (int, bool) {
		return slices.BinarySearchFunc(c.entries, k, func(e keys.Entry, k string) int { return cmp.Compare(e.Key, k) })
	}
	lo, found := at(key)
	if end == "" {
		if found {
			return lo, lo + 1
		}
		return lo, lo
	}
	hi, _ = at(end)
	return lo, max(lo, hi)
}

func (c *Cluster) get(key, end string) (keys.Read, error) {
	if key == "" {
		return keys.Read{}, refusal{errors.New("key is not provided")}
	}
	lo, hi := c.span(key, end)
	return keys.Read{Entries: slices.Clone(c.entries[lo:hi]), Rev: c.rev, Cluster: c.id}, nil
}

func (c *Cluster) txn(t keys.Txn) (keys.TxnResult, error) {
	puts, err := check(t)
	if err != nil {
		return keys.TxnResult{}, refusal{err}
	}
	if c.full && puts {
		return keys.TxnResult{}, ErrNoSpace
	}
	for _, g := range t.If {
		if !c.holds(g) {
			res := keys.TxnResult{Rev: c.rev}
			if t.Else != "" {
				r, _ := c.get(t.Else, "")
				res.Else = r.One()
			}
			return res, nil
		}
	}
	for _, w := range t.Then {
		if w.Value != nil && w.Lease != 0 && c.leases[w.Lease] == nil {
			return keys.TxnResult{}, refusal{fmt.Errorf("put %s: %w", w.Key, keys.ErrLeaseLost)}
		}
	}
	next := keys.Change{Rev: c.rev + 1}
	for _, w := range t.Then {
		if w.Value == nil {
			next.Events = append(next.Events, c.remove(w.Key, w.End, next.Rev)...)
		} else {
			next.Events = append(next.Events, c.put(w, next.Rev))
		}
	}
	c.commit(next)
	return keys.TxnResult{OK: true, Rev: c.rev}, nil
}

// check is what etcd refuses without looking at any key.
func check(t keys.Txn) (puts bool, err error) {
	if len(t.If) > keys.MaxOps || len(t.Then) > keys.MaxOps {
		return false, errors.New("too many operations in txn request")
	}
	for _, g := range t.If {
		if g.Key == "" {
			return false, errors.New("key is not provided")
		}
	}
	seen := map[string]bool{}
	for _, w := range t.Then {
		if w.Key == "" {
			return false, errors.New("key is not provided")
		}
		if w.Value == nil {
			continue
		}
		puts = true
		if seen[w.Key] {
			return false, fmt.Errorf("duplicate key %s given in txn request", w.Key)
		}
		seen[w.Key] = true
	}
	for _, w := range t.Then {
		if w.Value != nil {
			continue
		}
		for k := range seen {
			if inside(k, w.Key, w.End) {
				return false, fmt.Errorf("duplicate key %s given in txn request", k)
			}
		}
	}
	return puts, nil
}

func inside(k, key, end string) bool {
	if end == "" {
		return k == key
	}
	return key <= k && k < end
}

// holds compares as etcd does: an empty range is compared once, as a key with
// revision 0, and has no value to compare.
func (c *Cluster) holds(g keys.Guard) bool {
	lo, hi := c.span(g.Key, g.End)
	if lo == hi {
		return g.What != keys.ValueIs && compare(g, keys.Entry{})
	}
	for _, e := range c.entries[lo:hi] {
		if !compare(g, e) {
			return false
		}
	}
	return true
}

func compare(g keys.Guard, e keys.Entry) bool {
	switch g.What {
	case keys.RevIs:
		return e.Rev == g.Rev
	case keys.RevBelow:
		return e.Rev < g.Rev
	case keys.ValueIs:
		return string(e.Value) == g.Value
	}
	panic(fmt.Sprintf("guard on %s compares %d", g.Key, g.What))
}

func (c *Cluster) put(w keys.Write, rev int64) keys.Event {
	e := keys.Entry{Key: w.Key, Value: bytes.Clone(w.Value), Rev: rev, Made: rev, Lease: w.Lease}
	lo, hi := c.span(w.Key, "")
	if lo < hi {
		e.Made = c.entries[lo].Made
		c.detach(c.entries[lo])
		c.entries[lo] = e
	} else {
		c.entries = slices.Insert(c.entries, lo, e)
	}
	if l := c.leases[e.Lease]; l != nil {
		l.keys[e.Key] = true
	}
	return keys.Event{Entry: e}
}

func (c *Cluster) remove(key, end string, rev int64) []keys.Event {
	lo, hi := c.span(key, end)
	var evs []keys.Event
	for _, e := range c.entries[lo:hi] {
		c.detach(e)
		evs = append(evs, keys.Event{Entry: keys.Entry{Key: e.Key, Rev: rev}, Deleted: true})
	}
	c.entries = slices.Delete(c.entries, lo, hi)
	return evs
}

// commit makes a change the newest, unless nothing changed.
func (c *Cluster) commit(n keys.Change) {
	if len(n.Events) == 0 {
		return
	}
	c.rev = n.Rev
	c.history = append(c.history, n)
	for _, w := range c.watches {
		w.add(n)
	}
}
