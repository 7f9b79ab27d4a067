package peers

import (
	"context"
	"net"
	"testing"

	"github.com/elasticd/elastic/internal/peer"
)

func hostOf(t *testing.T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// A machine that got another address is at that one; what was given, and what cannot be said,
// stays.
func TestWhereANodeIs(t *testing.T) {
	for name, c := range map[string]struct {
		now  func() string
		want string
	}{
		"it was given":        {nil, "127.0.0.1"},
		"another one":         {func() string { return "127.0.0.2" }, "127.0.0.2"},
		"the same":            {func() string { return "127.0.0.1" }, "127.0.0.1"},
		"no way to the store": {func() string { return "" }, "127.0.0.1"},
		"it is not there yet": {func() string { return "192.0.2.1" }, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := peer.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close(context.Background())
			p := &Place{Server: server, Host: "127.0.0.1", Now: c.now}
			for range 2 {
				if got := hostOf(t, p.Here()); got != c.want {
					t.Errorf("it is at %s, want %s", got, c.want)
				}
			}
		})
	}
}
