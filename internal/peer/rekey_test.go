package peer

import (
	"io"
	"net/http"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

// Both ends go on under another secret: they reach each other, in streams and over HTTP, and a node
// that knows only the one before is a stranger.
func TestRekey(t *testing.T) {
	a, b := newAgent("a", "1").serve(t, secret, defaultLimits()), newAgent("b", "1")
	a.srv.Handle("/", http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	c, old := b.client(t, secret), b.client(t, secret)
	get := func(c *Client) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.To(a.ref()).RoundTrip(r)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := get(c); err != nil {
		t.Fatal(err)
	}
	other := []byte("fedcba9876543210fedcba9876543210")
	if err := a.srv.Rekey(other); err != nil {
		t.Fatal(err)
	}
	if k := c.Probe(t.Context(), a.ref()).Kind; k != membership.Stranger {
		t.Errorf("with the old secret: %s", k)
	}
	if err := c.Rekey(other); err != nil {
		t.Fatal(err)
	}
	if k := c.Probe(t.Context(), a.ref()).Kind; k != membership.Same {
		t.Errorf("with the new one: %s", k)
	}
	if err := get(c); err != nil {
		t.Error(err)
	}
	if k := old.Probe(t.Context(), a.ref()).Kind; k != membership.Stranger {
		t.Errorf("a node without the new key: %s", k)
	}
	if c.Rekey([]byte("short")) == nil || a.srv.Rekey(nil) == nil {
		t.Error("what is no secret was taken")
	}
}
