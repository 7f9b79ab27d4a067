package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Same does the same random operations on both stores, in many short sequences. It fails if they
// differ in more than the revision at which they begin. No other client may write to either. COUNT
// sets the number of sequences.
func Same(t *testing.T, x, y Subject) {
	count := "200"
	if c := os.Getenv("COUNT"); c != "" {
		count = c
	}
	if err := flag.Set("rapid.checks", count); err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		prefix := schema.Job(fmt.Sprintf("same-%d", n)).Prefix()
		a, b := begin(t, rt, x, prefix), begin(t, rt, y, prefix)
		defer a.end()
		defer b.end()
		rt.Repeat(map[string]func(*rapid.T){
			"transaction": func(rt *rapid.T) {
				d := drawTxn(rt, a)
				both(rt, a, b, func(p *player) any { return p.txn(d) })
			},
			"get": func(rt *rapid.T) {
				r := drawRange(rt)
				both(rt, a, b, func(p *player) any { return p.get(r[0], r[1]) })
			},
			"grant": func(rt *rapid.T) { both(rt, a, b, (*player).grant) },
			"renew": func(rt *rapid.T) {
				i := drawLease(rt)
				both(rt, a, b, func(p *player) any { return p.renew(i) })
			},
			"revoke": func(rt *rapid.T) {
				i := drawLease(rt)
				both(rt, a, b, func(p *player) any { return p.revoke(i) })
			},
			"watch": func(rt *rapid.T) {
				r := drawRange(rt)
				both(rt, a, b, func(p *player) any { return p.watch(r[0], r[1], p.last-p.base+1) })
			},
		})
		both(rt, a, b, func(p *player) any { return p.get("", "") })
		both(rt, a, b, (*player).changes)
		if rapid.IntRange(0, 4).Draw(rt, "look back") > 0 {
			return // etcd takes 0.1 s for it
		}
		rev := drawRev(rt, a)
		both(rt, a, b, func(p *player) any { return p.compact(rev) })
		for range 3 {
			r, from := drawRange(rt), drawRev(rt, a)
			both(rt, a, b, func(p *player) any { return p.watch(r[0], r[1], from) })
		}
		both(rt, a, b, (*player).changes)
	})
}

func both(rt *rapid.T, a, b *player, do func(*player) any) {
	rt.Helper()
	if d := cmp.Diff(do(a), do(b), cmpopts.EquateEmpty()); d != "" {
		rt.Fatalf("the stores differ (-first +second):\n%s", d)
	}
}

// player does the drawn operations on one store. Its results count revisions from the beginning,
// and leases in order.
type player struct {
	t      *testing.T // its context ends with the test
	rt     *rapid.T
	s      Subject
	prefix string
	base   int64
	last   int64 // newest revision seen
	leases []store.Lease

	watches []opened
	stop    []context.CancelFunc // of the watches
}

func begin(t *testing.T, rt *rapid.T, s Subject, prefix string) *player {
	p := &player{rt: rt, t: t, s: s, prefix: prefix}
	r, err := s.A.Get(t.Context(), prefix, "")
	if err != nil {
		rt.Fatal(err)
	}
	p.base, p.last = r.Rev, r.Rev
	return p
}

// end removes the remaining leases, so that none expires in a later sequence.
func (p *player) end() {
	for _, stop := range p.stop {
		stop()
	}
	for _, l := range p.leases {
		if err := p.s.A.Revoke(p.t.Context(), l); err != nil {
			p.rt.Fatal(err)
		}
	}
}

// Drawn values have leases by number, and revisions relative to the base.
type drawn struct {
	t      store.Txn // keys without prefix
	leases []int     // of the writes, -1: none
}

var (
	someKey   = rapid.SampledFrom([]string{"a", "ab", "a/", "a/x", "a/y", "b"})
	someValue = rapid.SampledFrom([]string{"", "1", "2"})
)

func drawLease(rt *rapid.T) int { return rapid.IntRange(0, 3).Draw(rt, "lease") }

// drawRev draws a revision around those that exist.
func drawRev(rt *rapid.T, p *player) int64 {
	return rapid.Int64Range(0, p.last-p.base+1).Draw(rt, "rev")
}

// drawRange draws one key, the keys below one, a range, or all.
func drawRange(rt *rapid.T) [2]string {
	k := someKey.Draw(rt, "key")
	switch rapid.IntRange(0, 3).Draw(rt, "range") {
	case 0:
		return [2]string{k, ""}
	case 1:
		return [2]string{k, store.End(k)}
	case 2:
		return [2]string{k, someKey.Draw(rt, "end")}
	}
	return [2]string{}
}

func drawTxn(rt *rapid.T, p *player) drawn {
	var d drawn
	for range rapid.IntRange(0, 2).Draw(rt, "guards") {
		r := drawRange(rt)
		g := store.Guard{Key: r[0], End: r[1], What: store.Compared(rapid.IntRange(0, 2).Draw(rt, "what"))}
		if g.What == store.ValueIs {
			g.Value = someValue.Draw(rt, "value")
		} else {
			g.Rev = drawRev(rt, p)
		}
		d.t.If = append(d.t.If, g)
	}
	for range rapid.IntRange(0, 3).Draw(rt, "writes") {
		w, lease := store.Write{}, -1
		if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
			r := drawRange(rt)
			w.Key, w.End = r[0], r[1]
		} else {
			w.Key, w.Value = someKey.Draw(rt, "key"), []byte(someValue.Draw(rt, "value"))
			lease = rapid.IntRange(-1, 2).Draw(rt, "lease")
		}
		d.t.Then = append(d.t.Then, w)
		d.leases = append(d.leases, lease)
	}
	if rapid.Bool().Draw(rt, "else") {
		d.t.Else = someKey.Draw(rt, "key")
	}
	return d
}

// at puts the prefix before a drawn range.
func (p *player) at(key, end string) (string, string) {
	switch {
	case key == "" && end == "":
		return p.prefix, store.End(p.prefix)
	case end == "":
		return p.prefix + key, ""
	}
	return p.prefix + key, p.prefix + end
}

// rev turns a drawn revision into one of this store; 0 stays "absent".
func (p *player) rev(r int64) int64 {
	if r == 0 {
		return 0
	}
	return p.base + r
}

func (p *player) lease(i int) store.Lease {
	if i < 0 || i >= len(p.leases) {
		return 0
	}
	return p.leases[i]
}

func (p *player) saw(rev int64) int64 {
	p.last = max(p.last, rev)
	return rev - p.base
}

func (p *player) entry(e store.Entry) store.Entry {
	e.Key = strings.TrimPrefix(e.Key, p.prefix)
	e.Rev -= p.base
	if e.Made != 0 {
		e.Made -= p.base
	}
	for i, l := range p.leases {
		if e.Lease == l {
			e.Lease = store.Lease(-1 - i)
		}
	}
	return e
}

// kind reduces an error to what a caller may act on.
func kind(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrLeaseLost) && store.Refused(err):
		return "refused, lease lost"
	case errors.Is(err, store.ErrLeaseLost):
		return "lease lost"
	case store.Refused(err):
		return "refused"
	}
	return err.Error()
}

func (p *player) txn(d drawn) any {
	t := store.Txn{}
	for _, g := range d.t.If {
		g.Key, g.End = p.at(g.Key, g.End)
		if g.What != store.ValueIs {
			g.Rev = p.rev(g.Rev)
		}
		t.If = append(t.If, g)
	}
	for i, w := range d.t.Then {
		w.Key, w.End = p.at(w.Key, w.End)
		w.Lease = p.lease(d.leases[i])
		t.Then = append(t.Then, w)
	}
	if d.t.Else != "" {
		t.Else = p.prefix + d.t.Else
	}
	res, err := p.s.A.Txn(p.t.Context(), t)
	if err != nil {
		return kind(err)
	}
	res.Rev = p.saw(res.Rev)
	if res.Else != nil {
		e := p.entry(*res.Else)
		res.Else = &e
	}
	return res
}

func (p *player) get(key, end string) any {
	key, end = p.at(key, end)
	r, err := p.s.B.Get(p.t.Context(), key, end)
	if err != nil {
		return kind(err)
	}
	out := store.Read{Rev: p.saw(r.Rev)}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, p.entry(e))
	}
	return out
}

func (p *player) grant() any {
	l, ttl, err := p.s.A.Grant(p.t.Context(), 10*time.Minute)
	if err != nil {
		return kind(err)
	}
	p.leases = append(p.leases, l)
	return ttl
}

func (p *player) renew(i int) any {
	if p.lease(i) == 0 {
		return nil
	}
	return kind(p.s.B.Renew(p.t.Context(), p.lease(i)))
}

func (p *player) revoke(i int) any {
	if p.lease(i) == 0 {
		return nil
	}
	return kind(p.s.A.Revoke(p.t.Context(), p.lease(i)))
}

type opened struct {
	key, end string
	changes  <-chan store.Change
}

// watch opens a watch; changes returns what it received.
func (p *player) watch(key, end string, from int64) any {
	if key, end = p.at(key, end); end == "" || key < end { // else the range is empty
		ctx, stop := context.WithTimeout(p.t.Context(), patience)
		p.stop = append(p.stop, stop)
		p.watches = append(p.watches, opened{key, end, p.s.A.Watch(ctx, key, end, p.base+from)})
	}
	return nil
}

// changes ends all watches, after a change that each of them receives.
func (p *player) changes() any {
	var t store.Txn
	seen := map[string]bool{}
	for _, w := range p.watches {
		if !seen[w.key] {
			seen[w.key] = true
			t.Then = append(t.Then, store.Put(w.key, []byte("stop")))
		}
	}
	stop, err := p.s.B.Txn(p.t.Context(), t)
	if err != nil {
		return kind(err)
	}
	p.saw(stop.Rev)
	var all [][]any
	for _, w := range p.watches {
		all = append(all, p.drain(w, stop.Rev))
	}
	p.watches = nil
	return all
}

func (p *player) drain(w opened, last int64) (received []any) {
	for c := range w.changes {
		if c.Err != nil {
			return append(received, kind(c.Err))
		}
		if len(c.Events) == 0 {
			continue
		}
		done := c.Rev == last
		c = store.Change{Rev: c.Rev - p.base, Events: slices.Clone(c.Events)}
		for i := range c.Events {
			c.Events[i].Entry = p.entry(c.Events[i].Entry)
		}
		if received = append(received, c); done {
			return received
		}
	}
	return append(received, "the watch ended without "+w.key)
}

// compact forgets up to a revision, if there is one to forget.
func (p *player) compact(rev int64) any {
	if rev > 0 && p.base+rev <= p.last {
		p.s.Compact(p.base + rev)
	}
	return nil
}
