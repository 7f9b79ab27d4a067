package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// TestMain lets the test binary be an agent too: a process that can be killed and frozen.
func TestMain(m *testing.M) {
	if os.Getenv("PEER_TEST_ROLE") != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

var secret = []byte("0123456789abcdef0123456789abcdef")

// agent is one Self that a test can change.
type agent struct {
	hello  atomic.Pointer[Hello]
	doubts func(membership.Ref) bool
	heard  chan schema.Generation
	srv    *Server
}

func newAgent(node, incarnation string) *agent {
	a := &agent{heard: make(chan schema.Generation, 100)}
	a.hello.Store(&Hello{Job: "x", UID: "u1", Node: node, Incarnation: membership.Incarnation(incarnation),
		Generation: 3})
	return a
}

func (a *agent) self() Self {
	return Self{
		Hello: func() Hello { return *a.hello.Load() },
		Holds: a.doubts,
		Heard: func(g schema.Generation) {
			select {
			case a.heard <- g:
			default:
			}
		},
	}
}

func (a *agent) change(f func(*Hello)) {
	h := *a.hello.Load()
	f(&h)
	a.hello.Store(&h)
}

func (a *agent) ref() membership.Ref {
	h := a.hello.Load()
	return membership.Ref{Node: h.Node, Incarnation: h.Incarnation, Address: a.srv.Addr()}
}

// serve starts the agent's listener on 127.0.0.1.
func (a *agent) serve(t testing.TB, secret []byte, l limits) *agent {
	t.Helper()
	srv, err := listen("127.0.0.1:0", l)
	if err != nil {
		t.Fatal(err)
	}
	a.srv = srv
	t.Cleanup(func() { closeServer(t, srv) })
	if err := srv.Serve(secret, a.self()); err != nil {
		t.Fatal(err)
	}
	return a
}

func closeServer(t testing.TB, srv *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Close(ctx); err != nil {
		t.Error(err)
	}
}

// client dials as a. Its limit is wide: this machine may be busy, and what must answer does.
func (a *agent) client(t testing.TB, secret []byte) *Client {
	t.Helper()
	c, err := Dial(secret, a.self())
	if err != nil {
		t.Fatal(err)
	}
	c.limit = func() time.Duration { return 10 * time.Second }
	t.Cleanup(c.Close)
	return c
}

// short makes c give up soon, where the right outcome is that nothing answers.
func (c *Client) short() *Client {
	d := *c
	d.limit = func() time.Duration { return 200 * time.Millisecond }
	return &d
}

// speaker listens on 127.0.0.1 and treats every connection as f does, in its own goroutine.
func speaker(t *testing.T, f func(net.Conn)) membership.Ref {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	conns := make(chan struct{}, 1000)
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns <- struct{}{}
			go func() { f(c); c.Close(); <-conns }()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for range cap(conns) {
			conns <- struct{}{} // all are through
		}
	})
	return membership.Ref{Node: "b", Incarnation: "b1", Address: ln.Addr().String()}
}

func drain(c net.Conn) { io.Copy(io.Discard, c) }

// childMain is the other process: an agent that answers, and with PEER_TEST_ROLE=watch also
// watches the agent named in PEER_TEST_WATCH and prints what it holds against it.
func childMain() int {
	a := newAgent(os.Getenv("PEER_TEST_NODE"), os.Getenv("PEER_TEST_NODE")+"1")
	srv, err := Listen("127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a.srv = srv
	if err := srv.Serve(secret, a.self()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(srv.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	if addr := os.Getenv("PEER_TEST_WATCH"); addr != "" {
		c, err := Dial(secret, a.self())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		signals := make(chan membership.Signal)
		w := membership.NewWatcher(c, membership.DefaultBeats(), signals)
		w.Set([]membership.Ref{{Node: "a", Incarnation: "a1", Address: addr}})
		go func() {
			for s := range signals {
				fmt.Printf("signal %q\n", s.Sign)
			}
			close(ended)
		}()
		go func() {
			w.Run(ctx)
			close(signals)
		}()
	} else {
		close(ended)
	}
	io.Copy(io.Discard, os.Stdin) // until the test closes it
	cancel()
	<-ended
	fmt.Println("end")
	return 0
}
