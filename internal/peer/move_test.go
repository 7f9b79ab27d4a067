package peer

import (
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

// A server that moves is found at its new address, before and while it serves; nothing listens at
// the old one any more.
func TestMove(t *testing.T) {
	for _, when := range []string{"before it serves", "while it serves"} {
		t.Run(when, func(t *testing.T) {
			b := newAgent("b", "b1")
			srv, err := Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			b.srv = srv
			defer closeServer(t, srv)
			was := b.ref()
			move := func() {
				if err := srv.Move("127.0.0.2:0"); err != nil {
					t.Fatal(err)
				}
			}
			if when == "before it serves" {
				move()
			}
			if err := srv.Serve(secret, b.self()); err != nil {
				t.Fatal(err)
			}
			if when == "while it serves" {
				move()
			}
			c := newAgent("a", "a1").client(t, secret)
			if got := c.Probe(t.Context(), b.ref()).Kind; got != membership.Same ||
				b.ref().Address == was.Address {
				t.Errorf("at %s it answers %q", b.ref().Address, got)
			}
			if got := c.Probe(t.Context(), was).Kind; got != membership.Refused {
				t.Errorf("where it was the answer is %q", got)
			}
		})
	}
}

func TestMoveAfterClose(t *testing.T) {
	srv, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeServer(t, srv)
	if err := srv.Move("127.0.0.1:0"); err == nil {
		t.Error("a closed listener listens again")
	}
}
