package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/store"
)

// span returns the bounds of [key, end) in the entries.
func (c *Cluster) span(key, end string) (lo, hi int) {
	at := func(k string) (int, bool) {
		return slices.BinarySearchFunc(c.entries, k,
			func(e store.Entry, k string) int { return cmp.Compare(e.Key, k) })
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

func (c *Cluster) get(key, end string) (store.Read, error) {
	if key == "" {
		return store.Read{}, refusal{errors.New("key is not provided")}
	}
	lo, hi := c.span(key, end)
	return store.Read{Entries: slices.Clone(c.entries[lo:hi]), Rev: c.rev, Cluster: c.id}, nil
}

func (c *Cluster) txn(t store.Txn) (store.TxnResult, error) {
	puts, err := check(t)
	if err != nil {
		return store.TxnResult{}, refusal{err}
	}
	if c.full && puts {
		return store.TxnResult{}, ErrNoSpace
	}
	for _, g := range t.If {
		if !c.holds(g) {
			res := store.TxnResult{Rev: c.rev}
			if t.Else != "" {
				r, _ := c.get(t.Else, "")
				res.Else = r.One()
			}
			return res, nil
		}
	}
	for _, w := range t.Then {
		if w.Value != nil && w.Lease != 0 && c.leases[w.Lease] == nil {
			return store.TxnResult{}, refusal{fmt.Errorf("put %s: %w", w.Key, store.ErrLeaseLost)}
		}
	}
	next := store.Change{Rev: c.rev + 1}
	for _, w := range t.Then {
		if w.Value == nil {
			next.Events = append(next.Events, c.remove(w.Key, w.End, next.Rev)...)
		} else {
			next.Events = append(next.Events, c.put(w, next.Rev))
		}
	}
	c.commit(next)
	return store.TxnResult{OK: true, Rev: c.rev}, nil
}

// check returns the errors that etcd finds without reading any key.
func check(t store.Txn) (puts bool, err error) {
	if len(t.If) > store.MaxOps || len(t.Then) > store.MaxOps {
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

// holds compares as etcd does: an empty range counts as one key with revision 0 and without a
// value.
func (c *Cluster) holds(g store.Guard) bool {
	lo, hi := c.span(g.Key, g.End)
	if lo == hi {
		return g.What != store.ValueIs && compare(g, store.Entry{})
	}
	for _, e := range c.entries[lo:hi] {
		if !compare(g, e) {
			return false
		}
	}
	return true
}

func compare(g store.Guard, e store.Entry) bool {
	switch g.What {
	case store.RevIs:
		return e.Rev == g.Rev
	case store.RevBelow:
		return e.Rev < g.Rev
	case store.ValueIs:
		return string(e.Value) == g.Value
	}
	panic(fmt.Sprintf("guard on %s compares %d", g.Key, g.What))
}

func (c *Cluster) put(w store.Write, rev int64) store.Event {
	e := store.Entry{Key: w.Key, Value: bytes.Clone(w.Value), Rev: rev, Made: rev, Lease: w.Lease}
	if c.shared != nil && c.shared(w.Key) {
		e.Memo = new(store.Memo)
	}
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
	return store.Event{Entry: e}
}

func (c *Cluster) remove(key, end string, rev int64) []store.Event {
	lo, hi := c.span(key, end)
	var evs []store.Event
	for _, e := range c.entries[lo:hi] {
		c.detach(e)
		evs = append(evs, store.Event{Entry: store.Entry{Key: e.Key, Rev: rev}, Deleted: true})
	}
	c.entries = slices.Delete(c.entries, lo, hi)
	return evs
}

// commit publishes a change as the newest, unless it is empty.
func (c *Cluster) commit(n store.Change) {
	if len(n.Events) == 0 {
		return
	}
	c.rev = n.Rev
	c.history = append(c.history, n)
	for _, w := range c.watches {
		w.add(n)
	}
}
