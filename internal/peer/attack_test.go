package peer

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// Many attackers at once send nonsense, stall at every point, use another secret, lie about their
// identity and about generations, and ask for dials of addresses that lead nowhere. The cost for
// the listener is bounded, nothing changes, and an honest peer is answered all along.
func TestAttack(t *testing.T) {
	l := defaultLimits()
	l.pendingFrom, l.streamsFrom, l.chunksFrom = 16, 32, 16
	b := newAgent("b", "b1").serve(t, secret, l)
	honest := newAgent("a", "a1").client(t, secret)
	ours, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	others, err := identify([]byte("another secret than that one"))
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // a dial of it waits
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	// another host than the honest one
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}
	raw := func(say string) func() {
		return func() {
			if c, err := from.Dial("tcp", b.srv.Addr()); err == nil {
				t.Cleanup(func() { c.Close() })
				io.WriteString(c, say)
			}
		}
	}
	inside := func(id identity, proto string, say func(net.Conn)) func() {
		return func() {
			d := tls.Dialer{NetDialer: from, Config: id.config(proto)}
			c, err := d.DialContext(t.Context(), "tcp", b.srv.Addr())
			if err == nil {
				t.Cleanup(func() { c.Close() })
				say(c)
			}
		}
	}
	attacks := []func(){
		raw(""), raw("\x16\x03\x01"), raw("GET / HTTP/1.1\r\n\r\n"), raw(strings.Repeat("A", 70_000)),
		inside(others, streamProto, func(c net.Conn) { send(c, request{Want: wantHello}) }),
		inside(ours, streamProto, func(net.Conn) {}),
		inside(ours, streamProto,
			func(c net.Conn) { io.WriteString(c, "\xff\xff"+strings.Repeat("{", 70_000)) }),
		inside(ours, streamProto,
			func(c net.Conn) { send(c, request{Want: "everything", Generation: 1 << 63}) }),
		inside(ours, streamProto, func(c net.Conn) { send(c, request{Want: wantHolds, About: b.ref()}) }),
		inside(ours, streamProto,
			func(c net.Conn) { send(c, request{Want: wantBeats, Generation: 1 << 62}) }),
		inside(ours, streamProto, func(c net.Conn) {
			send(c, request{Want: wantReach, About: membership.Ref{Address: silent.Addr().String()}})
		}),
		inside(ours, chunkProto, func(c net.Conn) {
			io.WriteString(c, "PUT /chunk HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000000000\r\n\r\n")
		}),
	}
	before := runtime.NumGoroutine()
	var least, most runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&least)
	for i := range 60 * len(attacks) {
		attacks[i%len(attacks)]()
		if i%100 == 0 {
			if a := honest.Probe(t.Context(), b.ref()); a.Kind != membership.Same || a.Generation != 3 {
				t.Fatalf("after %d of them an honest peer got %+v", i, a)
			}
		}
	}
	// A connection has a goroutine, one more while it dials for another, and one of the listener's
	// HTTP.
	t.Logf("%d goroutines more", runtime.NumGoroutine()-before)
	if n, limit := runtime.NumGoroutine()-before, 2*(l.pendingFrom+l.streamsFrom+l.chunksFrom); n > limit {
		t.Errorf("%d goroutines, at most %d", n, limit)
	}
	runtime.GC()
	runtime.ReadMemStats(&most)
	if grown := int64(most.HeapAlloc) - int64(least.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d MiB were taken", grown>>20)
	}
	if h := *b.hello.Load(); h.Generation != 3 || h.Incarnation != "b1" {
		t.Errorf("it became %+v", h)
	}
}
