package peer

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// A connection that an attacker recorded and replays proves nothing: it is closed, and nothing of
// it reaches the agent.
func TestReplay(t *testing.T) {
	b := newAgent("b", "b1")
	var asked atomic.Int32
	b.doubts = func(membership.Ref) bool { asked.Add(1); return true }
	b.serve(t, secret, defaultLimits())
	tapes := make(chan []byte, 2)
	tap := speaker(t, func(c net.Conn) {
		on, err := net.Dial("tcp", b.srv.Addr())
		if err != nil {
			return
		}
		defer on.Close()
		back := make(chan struct{})
		go func() {
			defer close(back)
			io.Copy(c, on)
		}()
		var tape bytes.Buffer
		io.Copy(io.MultiWriter(on, &tape), c)
		on.(*net.TCPConn).CloseWrite()
		<-back
		tapes <- tape.Bytes()
	})
	c := newAgent("a", "a1").client(t, secret)
	tap.Node, tap.Incarnation = "b", "b1"
	if holds, err := c.Ask(t.Context(), tap, tap); !holds || err != nil || asked.Load() != 1 {
		t.Fatalf("by way of a proxy that records: %v, %v, asked %d times", holds, err, asked.Load())
	}
	again, err := net.Dial("tcp", b.srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.SetDeadline(time.Now().Add(time.Minute))
	if _, err := again.Write(<-tapes); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, again) // until it hangs up
	if n := asked.Load(); n != 1 || len(b.heard) > 0 {
		t.Errorf("the same bytes again: asked %d times, %d generations heard", n, len(b.heard))
	}
}
