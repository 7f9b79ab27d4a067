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

// Server is the listener of an agent.
type Server struct {
	gate *gate
	mux  *http.ServeMux
	http *http.Server
	hand *handoff // passes connections to http

	proves  atomic.Pointer[proof]
	serving sync.Once
	stop    chan struct{}  // closed by Close
	work    sync.WaitGroup // every goroutine of the server

	mu     sync.Mutex // guards what follows
	ln     net.Listener
	closed bool
	greet  func(*conn) // nil until Serve
}

// proof has the TLS settings for one secret, to listen and to dial for another agent.
type proof struct{ listen, dial *tls.Config }

// Listen binds addr, so the port is known before the secret. Until Serve, connections wait in the
// kernel's queue: a probe finds this node silent, but not refusing.
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

// Move listens on addr instead of the old address. Open connections stay open.
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

// Serve starts to answer nodes that know secret, in the background. It can be called once.
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

// Rekey sets the secret of the job that replaces this one. New connections need it. Open
// connections stay open.
func (s *Server) Rekey(secret []byte) error {
	id, err := identify(secret)
	if err == nil {
		s.proves.Store(&proof{id.config(streamProto, chunkProto), id.config(streamProto)})
	}
	return err
}

// Close closes the listener and all connections. Running requests may finish until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.serving.Do(func() {}) // no Serve after this
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
			// No file descriptor is left, or the peer has closed already. The listener goes on.
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

// welcome does the handshake of c, and gives c to the server of its protocol. After an error it
// closes c, and the peer can dial again.
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
		return // without a hello the peer counts this as no answer
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
		giveUpAfter(raw, userLimit) // without it idleLimit ends the stream, later
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
			return // this is a new incarnation: the watcher must dial again to notice
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

// reach dials address for another agent. Same means that an agent of this job listens there. It
// dials only addresses, and no names.
func (s *Server) reach(address string) membership.AnswerKind {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return membership.NoAnswer
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachLimit)
	defer cancel()
	c, err := (&tls.Dialer{Config: s.proves.Load().dial}).DialContext(ctx, "tcp", address)
	if err != nil {
		return max(dialKind(membership.Ref{Address: address}, err), handshakeKind(err))
	}
	c.Close()
	return membership.Same
}
