package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/elasticd/elastic/pkg/store"
)

// rough is a store on a bad connection: it loses transactions, or their answers, as its fates say.
type rough struct {
	store.Store
	fates []fate // of the next transactions; later ones are not disturbed
	sent  []store.Txn
}

type fate int

const (
	lost fate = iota // not applied, no answer
	mute             // applied, no answer
)

var errLine = errors.New("no answer")

func (r *rough) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	r.sent = append(r.sent, t)
	if len(r.fates) == 0 {
		return r.Store.Txn(ctx, t)
	}
	f := r.fates[0]
	r.fates = r.fates[1:]
	if f == mute {
		if _, err := r.Store.Txn(ctx, t); err != nil {
			return store.TxnResult{}, err
		}
	}
	return store.TxnResult{}, errLine
}

func (h *harness) request(id string) store.Request {
	return store.Request{
		If:   []store.Guard{store.Absent(h.key("a"))},
		Then: []store.Write{store.Put(h.key("a"), []byte(id)), store.Put(h.key("b"), []byte(id))},
	}
}

func testSend(h *harness) {
	before := h.all().Rev
	rev, err := store.Send(h.Context(), h.A, h.request("1"))
	if err != nil || rev != before+1 {
		h.Fatalf("sent at revision %d, %v; want %d", rev, err, before+1)
	}
	h.equal("keys", h.names(), []string{"a=1", "b=1"})
	if _, err := store.Send(h.Context(), h.B, h.request("2")); !errors.Is(err, store.ErrMoved) {
		h.Fatalf("sent against a guard: %v", err)
	}
	h.equal("keys", h.names(), []string{"a=1", "b=1"})
}

func testSendLost(h *harness) {
	for i, fates := range [][]fate{{lost}, {mute}, {lost, lost}, {lost, mute}, {mute, lost}, {mute, mute}} {
		id := fmt.Sprint(i)
		before := h.write(store.DeleteRange(h.prefix, store.End(h.prefix)))
		line := &rough{Store: h.A, fates: fates}
		rev, err := store.Send(h.Context(), line, h.request(id))
		if err != nil || rev != before+1 {
			h.Fatalf("%v: sent at revision %d, %v; want %d", fates, rev, err, before+1)
		}
		h.equal("keys", h.names(), []string{"a=" + id, "b=" + id})
		if len(line.sent) != len(fates)+1 {
			h.Fatalf("%v: sent %d times", fates, len(line.sent))
		}
		// A repeated sending that arrives only now changes nothing.
		for _, t := range line.sent {
			h.equal("sent again", t, line.sent[0])
			if h.txn(t).OK {
				h.Fatalf("%v: applied twice", fates)
			}
		}
	}

	// Another client changed the key first.
	h.write(store.DeleteRange(h.prefix, store.End(h.prefix)))
	line := &rough{Store: h.A, fates: []fate{lost}}
	h.put("a=other")
	if _, err := store.Send(h.Context(), line, h.request("x")); !errors.Is(err, store.ErrMoved) {
		h.Fatalf("overtaken: %v", err)
	}
	h.equal("keys", h.names(), []string{"a=other"})
}

// Exactly one of several rivals for one revision wins.
func testRivals(h *harness) {
	const n = 20
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		s := h.A
		if i%2 == 1 {
			s = h.B
		}
		wg.Go(func() {
			_, errs[i] = store.Send(h.Context(), &rough{Store: s, fates: []fate{mute}},
				h.request(fmt.Sprint(i)))
		})
	}
	wg.Wait()
	winner := ""
	for i, err := range errs {
		switch {
		case err == nil && winner != "":
			h.Fatalf("%s and %d both won", winner, i)
		case err == nil:
			winner = fmt.Sprint(i)
		case !errors.Is(err, store.ErrMoved):
			h.Fatal(err)
		}
	}
	h.equal("keys", h.names(), []string{"a=" + winner, "b=" + winner})
}

func testSendRefused(h *harness) {
	r := h.request("1")
	r.Then = append(r.Then, r.Then[1])
	line := &rough{Store: h.A, fates: []fate{lost}}
	if _, err := store.Send(h.Context(), line, r); !store.Refused(err) {
		h.Fatalf("a key twice: %v", err)
	}
	if len(line.sent) != 2 {
		h.Fatalf("sent %d times, want until the refusal", len(line.sent))
	}
}

func testCancelled(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := h.A.Get(ctx, h.key("a"), ""); !errors.Is(err, context.Canceled) {
		h.Errorf("get: %v", err)
	}
	if _, err := h.A.Txn(ctx,
		store.Txn{Then: []store.Write{store.Put(h.key("a"), []byte("1"))}}); err == nil ||
		store.Refused(err) {
		h.Errorf("transaction: %v", err)
	}
	if err := h.A.Renew(ctx, 1); err == nil || errors.Is(err, store.ErrLeaseLost) {
		h.Errorf("renew: %v", err)
	}
	if _, err := store.Send(ctx, &rough{Store: h.A, fates: []fate{lost}}, h.request("1")); err == nil ||
		errors.Is(err, store.ErrMoved) {
		h.Errorf("send: %v", err)
	}
}
