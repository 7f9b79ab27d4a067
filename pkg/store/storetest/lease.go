package storetest

import (
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

func testLease(h *harness) {
	l, granted := h.grant(1500 * time.Millisecond)
	if l == 0 || granted < 2*time.Second {
		h.Fatalf("lease %d for %v, want at least the two seconds of 1.5 s", l, granted)
	}
	other, _ := h.grant(patience)
	if other == l {
		h.Fatal("one lease granted twice")
	}
	h.write(store.PutLeased(h.key("a"), []byte("1"), l), store.PutLeased(h.key("b"), []byte("1"), other))
	if e := h.get(h.key("a"), "").One(); e.Lease != l {
		h.Fatalf("key on lease %d, want %d", e.Lease, l)
	}
	if err := h.renew(h.A, l); err != nil {
		h.Fatal(err)
	}
	if left, lives, err := h.B.TimeToLive(h.Context(), l); err != nil || left > lives || lives != granted {
		h.Fatalf("lease of %v has %v of %v left: %v", granted, left, lives, err)
	}
	for range 2 { // it is no error to revoke a lease that is gone
		if err := h.A.Revoke(h.Context(), l); err != nil {
			h.Fatal(err)
		}
	}
	h.equal("keys", h.names(), []string{"b=1"})
	if err := h.renew(h.A, l); !errors.Is(err, store.ErrLeaseLost) {
		h.Fatalf("renewal of a revoked lease: %v", err)
	}
	if _, _, err := h.A.TimeToLive(h.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
		h.Fatalf("time that a revoked lease has left: %v", err)
	}
	if err := h.renew(h.B, other); err != nil {
		h.Fatal(err)
	}
}

func testExpiry(h *harness) {
	l, ttl := h.grant(2 * time.Second)
	kept, _ := h.grant(2 * time.Second)
	rev := h.write(store.PutLeased(h.key("a"), []byte("1"), l), store.PutLeased(h.key("b"), []byte("1"), l),
		store.PutLeased(h.key("kept"), []byte("1"), kept))
	w := h.watch(h.B, rev+1)
	renew := time.NewTicker(ttl / 4)
	defer renew.Stop()
	for sent := false; !sent; {
		select {
		case <-renew.C:
			if err := h.renew(h.A, kept); err != nil {
				h.Fatal(err)
			}
		case c := <-w.changes:
			if sent = len(c.Events) > 0; sent || c.Err != nil {
				h.equal("sent", h.text(c), []string{"-a", "-b"})
			}
		}
	}
	if err := h.renew(h.A, l); !errors.Is(err, store.ErrLeaseLost) {
		h.Fatalf("renewal of a lease that ran out: %v", err)
	}
	h.equal("keys", h.names(), []string{"kept=1"})
}

func testMoveLease(h *harness) {
	l, _ := h.grant(patience)
	m, _ := h.grant(patience)
	h.write(store.PutLeased(h.key("moved"), []byte("1"), l), store.PutLeased(h.key("freed"), []byte("1"), l),
		store.PutLeased(h.key("stays"), []byte("1"), l), store.PutLeased(h.key("again"), []byte("1"), l))
	h.write(store.Delete(h.key("again")))
	h.write(store.Put(h.key("again"), []byte("2")))
	h.write(store.PutLeased(h.key("moved"), []byte("2"), m), store.Put(h.key("freed"), []byte("2")))
	if err := h.A.Revoke(h.Context(), l); err != nil {
		h.Fatal(err)
	}
	h.equal("keys", h.names(), []string{"again=2", "freed=2", "moved=2"})
	if err := h.A.Revoke(h.Context(), m); err != nil {
		h.Fatal(err)
	}
	h.equal("keys", h.names(), []string{"again=2", "freed=2"})
}
