// Package storetest is the conformance suite of store.Store. The store over a real etcd and the one
// in memory both pass it, so results of a simulation also hold for etcd.
package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Subject is a store under test.
type Subject struct {
	A, B    store.Store // two clients of one etcd; they may be the same
	Compact func(rev int64)
}

// Run tests a store. in runs a test with a subject, in a synctest bubble if the store works there.
func Run(t *testing.T, in func(t *testing.T, test func(*testing.T, Subject))) {
	for _, c := range []struct {
		name string
		test func(*harness)
	}{
		{"get", testGet},
		{"get of a range", testRange},
		{"get of several ranges", testRanges},
		{"transaction is one revision", testAtomic},
		{"transaction that changes nothing", testNothing},
		{"guards", testGuards},
		{"else", testElse},
		{"refused transactions", testRefused},
		{"delete of a range", testDeleteRange},
		{"lease is granted, renewed, revoked", testLease},
		{"lease runs out", testExpiry},
		{"key moves between leases", testMoveLease},
		{"put on a lost lease", testLostLease},
		{"watch from a revision", testWatch},
		{"watch of the future", testWatchFuture},
		{"watch is atomic", testWatchAtomic},
		{"watch sees its range only", testWatchRange},
		{"watch gives signs of life", testSigns},
		{"watch ends with its context", testWatchEnd},
		{"watch of compacted revisions", testCompacted},
		{"send", testSend},
		{"send whose answer is lost", testSendLost},
		{"send of two rivals", testRivals},
		{"send that is refused", testSendRefused},
		{"cancelled context", testCancelled},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			in(t, func(t *testing.T, s Subject) {
				job := schema.Job(strings.NewReplacer("/", ".", ",", "").
					Replace(t.Name()[strings.LastIndex(t.Name(), "/")+1:]))
				c.test(&harness{T: t, Subject: s, prefix: job.Prefix()})
			})
		})
	}
}

// harness is a test on keys below a prefix of its own.
type harness struct {
	*testing.T
	Subject
	prefix string
}

// patience bounds what a test waits for, in case it never comes.
const patience = 30 * time.Second

func (h *harness) key(k string) string { return h.prefix + k }

func (h *harness) get(key, end string) store.Read {
	h.Helper()
	r, err := h.A.Get(h.Context(), key, end)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// all returns every entry below the prefix.
func (h *harness) all() store.Read {
	h.Helper()
	return h.get(h.prefix, store.End(h.prefix))
}

// names returns the entries as "key=value", without the prefix.
func (h *harness) names() []string {
	h.Helper()
	var s []string
	for _, e := range h.all().Entries {
		s = append(s, strings.TrimPrefix(e.Key, h.prefix)+"="+string(e.Value))
	}
	return s
}

func (h *harness) txn(t store.Txn) store.TxnResult {
	h.Helper()
	r, err := h.A.Txn(h.Context(), t)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// write applies writes and returns their revision.
func (h *harness) write(w ...store.Write) int64 {
	h.Helper()
	r := h.txn(store.Txn{Then: w})
	if !r.OK {
		h.Fatal("a transaction without guards was not applied")
	}
	return r.Rev
}

// put writes key=value pairs, each at a revision of its own, and returns the last.
func (h *harness) put(pairs ...string) int64 {
	h.Helper()
	var rev int64
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		rev = h.write(store.Put(h.key(k), []byte(v)))
	}
	return rev
}

func (h *harness) grant(ttl time.Duration) (store.Lease, time.Duration) {
	h.Helper()
	l, granted, err := h.A.Grant(h.Context(), ttl)
	if err != nil {
		h.Fatal(err)
	}
	return l, granted
}

// renew renews until the store answers: an answer may be late.
func (h *harness) renew(s store.Store, l store.Lease) error {
	for {
		err := s.Renew(h.Context(), l)
		if err == nil || errors.Is(err, store.ErrLeaseLost) || h.Context().Err() != nil {
			return err
		}
	}
}

func (h *harness) equal(what string, got, want any) {
	h.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		h.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// watch follows the whole prefix.
func (h *harness) watch(s store.Store, from int64) *follower {
	return h.watchRange(s, h.prefix, store.End(h.prefix), from)
}

func (h *harness) watchRange(s store.Store, key, end string, from int64) *follower {
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	f := &follower{h: h, changes: s.Watch(ctx, key, end, from), cancel: cancel}
	h.Cleanup(f.stop)
	return f
}

type follower struct {
	h       *harness
	changes <-chan store.Change
	cancel  func()
}

// next returns the next change that is no sign of life.
func (f *follower) next() store.Change {
	f.h.Helper()
	for c := range f.changes {
		if c.Err != nil || len(c.Events) > 0 {
			return c
		}
	}
	f.h.Fatal("the watch ended")
	return store.Change{}
}

// stop ends the watch, and waits until it has ended.
func (f *follower) stop() {
	f.cancel()
	for range f.changes {
	}
}

// text writes a change as "+key=value" and "-key", without the prefix.
func (h *harness) text(c store.Change) []string {
	h.Helper()
	if c.Err != nil {
		h.Fatal(c.Err)
	}
	var s []string
	for _, e := range c.Events {
		if e.Rev != c.Rev {
			h.Fatalf("event of revision %d in change %d", e.Rev, c.Rev)
		}
		k := strings.TrimPrefix(e.Key, h.prefix)
		if e.Deleted {
			s = append(s, "-"+k)
		} else {
			s = append(s, "+"+k+"="+string(e.Value))
		}
	}
	return s
}
