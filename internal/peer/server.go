package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Server is an agent's one listener.
type Server struct {
	gate *gate
	mux  *http.ServeMux
	http *http.Server
	hand *handoff // connections of HTTP, on their way to http

	proves  atomic.Pointer[proof]
	serving sync.Once
	stop    chan struct{}  // closed by Close
	work    sync.WaitGroup // every goroutine of the server

	mu     sync.Mutex // guards what follows
	ln     net.Listener
	closed bool
	greet  func(*conn) // nil until Serve
}

// proof is how this listener proves itself, and when it dials for another, under one secret.
type proof struct{ listen, dial *tls.Config }

// Listen binds addr at once, so that the port is known before the secret is. Until Serve a process
// that connects waits in the kernel's queue: to a probe that is silence, never a refusal.
func Listen(addr string) (*Server, error) { return listen(addr, defaultLimits()) }

func listen(addr string, l limits) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	s := &Server{ln: ln, gate: newGate(l), mux: http.NewServeMux(), stop: make(chan struct{})}
	s.hand = &handoff{addr: ln.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	return s, nil
}

// Addr is host:port of the listener.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ln.Addr().String()
}

// Move listens on addr in place of where it listened. Open connections stay open.
func (s *Server) Move(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		ln.Close()
		return net.ErrClosed
	}
	s.ln.Close()
	s.ln = ln
	if s.greet != nil {
		s.work.Go(func() { s.accept(ln, s.greet) })
	}
	return nil
}

// Serve begins to answer for self to nodes that know secret, and returns. It serves once.
func (s *Server) Serve(secret []byte, self Self) error {
	id, err := identify(secret)
	if err != nil {
		return err
	}
	err = errors.New("the listener serves already or is closed")
	s.serving.Do(func() {
		err = nil
		s.http = newHTTP(s.mux, self, s.gate.limits.prove)
		s.work.Go(func() { s.http.Serve(s.hand) })
		s.proves.Store(&proof{id.config(streamProto, chunkProto), id.config(streamProto)})
		s.mu.Lock()
		defer s.mu.Unlock()
		ln, greet := s.ln, func(c *conn) { s.welcome(c, s.proves.Load().listen, self) }
		s.greet = greet
		s.work.Go(func() { s.accept(ln, greet) })
	})
	return err
}

// Rekey answers from now on only nodes that know another secret: that of the job that succeeds this
// one. Open connections stay as they are.
func (s *Server) Rekey(secret []byte) error {
	id, err := identify(secret)
	if err == nil {
		s.proves.Store(&proof{id.config(streamProto, chunkProto), id.config(streamProto)})
	}
	return err
}

// Close ends the listener and every connection. Requests under way may end until ctx does.
func (s *Server) Close(ctx context.Context) error {
	s.serving.Do(func() {}) // from now on it cannot begin
	s.mu.Lock()
	s.closed = true
	err := s.ln.Close()
	s.mu.Unlock()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	if s.http != nil {
		if down := s.http.Shutdown(ctx); down != nil {
			err = errors.Join(err, fmt.Errorf("end requests of peers: %w", down), s.http.Close())
		}
	}
	close(s.stop)
	s.gate.close()
	s.work.Wait()
	return err
}

func (s *Server) accept(ln net.Listener, greet func(*conn)) {
	for {
		raw, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, or the dialler has gone already. Neither ends a listener.
			select {
			case <-time.After(10 * time.Millisecond):
			case <-s.stop:
			}
			continue
		}
		if c := s.gate.admit(raw); c != nil {
			s.work.Go(func() { greet(c) })
		}
	}
}

// welcome lets c prove that it knows the secret and hands it to the server of its protocol. Errors
// are the peer's: it is shut out, and dials again if it is honest.
func (s *Server) welcome(c *conn, config *tls.Config, self Self) {
	t := tls.Server(c, config)
	c.SetDeadline(time.Now().Add(s.gate.limits.prove))
	if err := t.Handshake(); err != nil {
		c.Close()
		return
	}
	if t.ConnectionState().NegotiatedProtocol == chunkProto {
		s.hand.pass(s.gate, c, t)
		return
	}
	defer t.Close()
	var q request
	if err := receive(t, &q); err != nil || !s.gate.prove(c, streams) {
		return
	}
	self.heard(q.Generation)
	s.answer(c, t, q, self)
}

func (s *Server) answer(c *conn, t *tls.Conn, q request, self Self) {
	h := self.Hello()
	if h.Stalled {
		return // a dial without a hello is one without an answer
	}
	r := reply{Hello: h}
	if q.Want == wantHolds && self.Holds != nil {
		r.Holds = self.Holds(q.About)
	}
	if q.Want == wantReach {
		r.Reach = s.reach(q.About.Address)
	}
	if err := send(t, r); err != nil || q.Want != wantBeats {
		return
	}
	if raw, ok := c.Conn.(*net.TCPConn); ok {
		giveUpAfter(raw, userLimit) // without it the idle limit ends the stream, later
	}
	var in beat
	var f flood
	var known schema.Generation
	for {
		now := time.Now()
		t.SetDeadline(now.Add(idleLimit))
		if _, err := io.ReadFull(t, in[:]); err != nil {
			return
		}
		h := self.Hello()
		switch {
		case f.over(time.Now()) || h.Incarnation != r.Incarnation:
			return // its own next life: let the watcher dial and see it
		case h.Stalled:
			continue
		}
		if g := in.generation(); g > known {
			known = g
			self.heard(g)
		}
		out := newBeat(h)
		if _, err := t.Write(out[:]); err != nil {
			return
		}
	}
}

// reach dials the address that another agent gave as its own: Same says that some agent of this job
// listens there. Only an address is dialled, never a name.
func (s *Server) reach(address string) membership.AnswerKind {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return membership.NoAnswer
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachLimit)
	defer cancel()
	c, err := (&tls.Dialer{Config: s.proves.Load().dial}).DialContext(ctx, "tcp", address)
	if err != nil {
		return max(refusal(membership.Ref{Address: address}, err), strangeness(err))
	}
	c.Close()
	return membership.Same
}
