package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

func testWatch(h *harness) {
	from := h.put("a=1")
	h.put("a=2", "b=1")
	w := h.watch(h.B, from)
	h.equal("history", [][]string{h.text(w.next()), h.text(w.next()), h.text(w.next())},
		[][]string{{"+a=1"}, {"+a=2"}, {"+b=1"}})
	rev := h.write(store.Delete(h.key("a")))
	c := w.next()
	h.equal("deletion", c, store.Change{Rev: rev,
		Events: []store.Event{{Entry: store.Entry{Key: h.key("a"), Rev: rev}, Deleted: true}}})

	l, _ := h.grant(patience)
	rev = h.write(store.PutLeased(h.key("b"), []byte("2"), l))
	h.equal("put", w.next(), store.Change{Rev: rev, Events: []store.Event{
		{Entry: store.Entry{Key: h.key("b"), Value: []byte("2"), Rev: rev, Made: from + 2, Lease: l}}}})

	// A watch resumed at any revision delivers the rest, without a gap or a repetition.
	for r := from; r <= rev; r++ {
		f := h.watch(h.A, r)
		for want := r; want <= rev; want++ {
			if c := f.next(); c.Rev != want {
				h.Fatalf("watch from %d sent %d, want %d", r, c.Rev, want)
			}
		}
		f.stop()
	}
}

// A watch may be opened at the revision after a read, which does not exist yet.
func testWatchFuture(h *harness) {
	rev := h.put("a=1")
	w := h.watch(h.A, rev+1)
	h.put("a=2")
	h.equal("next", h.text(w.next()), []string{"+a=2"})
	h.put("a=3")
	h.equal("next", h.text(w.next()), []string{"+a=3"})
}

func testWatchAtomic(h *harness) {
	h.put("x/1=", "x/2=", "y=")
	from := h.all().Rev + 1
	before := h.watch(h.B, from)
	h.write(store.Put(h.key("b"), []byte("1")), store.Put(h.key("a"), []byte("1")),
		store.DeleteRange(h.key("x/"), store.End(h.key("x/"))), store.Delete(h.key("y")))
	want := []string{"+b=1", "+a=1", "-x/1", "-x/2", "-y"}
	h.equal("as it happens", h.text(before.next()), want)
	h.equal("as history", h.text(h.watch(h.A, from).next()), want)
}

func testWatchRange(h *harness) {
	from := h.put("n/0=", "n=", "n0=")
	one := h.watchRange(h.A, h.key("n/a"), "", from+1)
	below := h.watchRange(h.A, h.key("n/"), store.End(h.key("n/")), from+1)
	h.put("n=1", "n/a/x=1", "n/ab=1", "n0=1")
	h.write(store.Put(h.key("n/a"), []byte("2")), store.Put(h.key("n"), []byte("2")))
	h.equal("one key", h.text(one.next()), []string{"+n/a=2"})
	h.equal("below n/", [][]string{h.text(below.next()), h.text(below.next()), h.text(below.next())},
		[][]string{{"+n/a/x=1"}, {"+n/ab=1"}, {"+n/a=2"}})
}

// While the store answers, a watch is never silent for three seconds. A sign of life claims no more
// than what was sent.
func testSigns(h *harness) {
	rev := h.put("a=1")
	w := h.watch(h.A, rev+1)
	for range 2 {
		limit := time.NewTimer(patience)
		select {
		case c := <-w.changes:
			if c.Err != nil || len(c.Events) > 0 || c.Rev < rev {
				h.Fatalf("not a sign of life: %+v", c)
			}
		case <-limit.C:
			h.Fatal("no sign of life")
		}
		limit.Stop()
	}
	h.put("a=2")
	for c := range w.changes {
		if len(c.Events) > 0 {
			break
		}
		if c.Rev > rev {
			h.Fatalf("sign of life at %d before the change was sent", c.Rev)
		}
	}
}

func testWatchEnd(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	w := h.A.Watch(ctx, h.prefix, store.End(h.prefix), 1)
	cancel()
	for c := range w {
		if c.Err != nil {
			h.Fatalf("the end of a context is reported as %v", c.Err)
		}
	}
}

func testCompacted(h *harness) {
	h.put("a=1", "a=2", "b=1")
	rev := h.write(store.Delete(h.key("a")))
	live := h.watch(h.A, rev+1)
	h.put("a=4")
	h.equal("live", h.text(live.next()), []string{"+a=4"})
	h.Compact(rev)
	for _, from := range []int64{1, rev - 1} {
		w := h.watch(h.A, from)
		if c := w.next(); !errors.Is(c.Err, store.ErrCompacted) {
			h.Fatalf("watch from %d sent %v, want ErrCompacted", from, h.text(c))
		}
		if c, open := <-w.changes; open {
			h.Fatalf("after ErrCompacted: %+v", c)
		}
	}
	ahead := h.watch(h.A, rev+100) // as after the store was set back
	if c := ahead.next(); !errors.Is(c.Err, store.ErrCompacted) {
		h.Fatalf("a watch from a revision that is not there sent %v, want ErrCompacted", h.text(c))
	}
	w := h.watch(h.A, rev)
	h.equal("from there", [][]string{h.text(w.next()), h.text(w.next())}, [][]string{{"-a"}, {"+a=4"}})
	h.put("a=5")
	h.equal("live", h.text(live.next()), []string{"+a=5"})
}
