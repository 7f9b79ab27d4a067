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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Client connects to the listeners of a job's other agents. It implements membership.Link.
type Client struct {
	self  Self
	limit func() time.Duration // for a dial, until the hello
	pace  *pace
	proof *atomic.Pointer[credentials]
}

// credentials are the TLS settings for one secret.
type credentials struct {
	streams *tls.Config
	chunks  *http.Transport
}

// Dial returns a Client for the job of secret. It does not connect to a node yet.
func Dial(secret []byte, self Self) (*Client, error) {
	id, err := identify(secret)
	if err != nil {
		return nil, err
	}
	pace := newPace()
	c := &Client{self: self, limit: pace.limit, pace: pace, proof: &atomic.Pointer[credentials]{}}
	c.proof.Store(&credentials{streams: id.config(streamProto), chunks: newTransport(id.config(chunkProto))})
	return c, nil
}

// Rekey sets another secret for new connections: that of the job that replaces this one.
func (c *Client) Rekey(secret []byte) error {
	id, err := identify(secret)
	if err != nil {
		return err
	}
	old := c.proof.Swap(&credentials{streams: id.config(streamProto),
		chunks: newTransport(id.config(chunkProto))})
	old.chunks.CloseIdleConnections()
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.proof.Load().chunks.CloseIdleConnections() }

// Probe dials to once, and returns the result.
func (c *Client) Probe(ctx context.Context, to membership.Ref) membership.Answer {
	return c.hello(ctx, max(c.limit(), dialLimit), to)
}

// Confirm is Probe with a shorter limit: the time that answers take on the open streams.
func (c *Client) Confirm(ctx context.Context, to membership.Ref) membership.Answer {
	return c.hello(ctx, c.limit(), to)
}

func (c *Client) hello(ctx context.Context, limit time.Duration, to membership.Ref) membership.Answer {
	t, a := c.openPunctually(ctx, limit, to, request{Want: wantHello})
	if t != nil {
		t.Close()
	}
	return a
}

// Ask asks watcher whether it still holds its suspicion of about. It fails if watcher does not
// answer, or if another incarnation answers.
func (c *Client) Ask(ctx context.Context, watcher, about membership.Ref) (holds bool, err error) {
	t, a := c.open(ctx, watcher, request{Want: wantHolds, About: about})
	if t != nil {
		t.Close()
	}
	if a.Kind != membership.Same {
		return false, fmt.Errorf("ask %s about %s: %s", watcher.Node, about.Node, a.Kind)
	}
	return a.Holds, nil
}

// Reach asks by to dial address, which is this agent's own, and returns the result. It fails if by
// does not answer.
func (c *Client) Reach(
	ctx context.Context, by membership.Ref, address string,
) (membership.AnswerKind, error) {
	t, a := c.open(ctx, by, request{Want: wantReach, About: membership.Ref{Address: address}})
	if t != nil {
		t.Close()
	}
	if a.Kind != membership.Same {
		return 0, fmt.Errorf("ask %s to dial %s: %s", by.Node, address, a.Kind)
	}
	return a.Reach, nil
}

// Follow keeps one stream of beats to to. See membership.Link.
func (c *Client) Follow(
	ctx context.Context, to membership.Ref, beats <-chan struct{}, heard func(membership.Answer),
) membership.Answer {
	began := time.Now()
	t, a := c.open(ctx, to, request{Want: wantBeats})
	if t == nil || a.Kind != membership.Same {
		if t != nil {
			t.Close()
		}
		return a
	}
	broken, way := make(chan struct{}), c.pace.open(time.Since(began))
	defer way.close()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(broken)
		heard(a)
		c.listen(t, a, func(a membership.Answer) {
			way.answered()
			heard(a)
		})
	})
	defer reader.Wait()
	defer t.Close()
	for {
		select {
		case <-ctx.Done():
			return membership.Answer{}
		case <-broken:
			return membership.Answer{}
		case <-beats:
			out := newBeat(c.self.Hello())
			t.SetWriteDeadline(time.Now().Add(userLimit))
			way.sent()
			if _, err := t.Write(out[:]); err != nil {
				return membership.Answer{}
			}
		}
	}
}

// listen reads the answers to beats until the stream ends.
func (c *Client) listen(t *tls.Conn, a membership.Answer, heard func(membership.Answer)) {
	var in beat
	var f flood
	for {
		if _, err := io.ReadFull(t, in[:]); err != nil || f.over(time.Now()) {
			return
		}
		if g := in.generation(); g > a.Generation {
			a.Generation = g
			c.self.heard(g)
		}
		a.Failed, a.Ended = in.failed(), in.ended()
		heard(a)
	}
}

// open dials to and sends q. It returns a connection if a node of this job answered. A reset before
// the hello may come from a listener that is closing, and an invalid reply from damaged data. So
// neither counts unless a second dial has the same result.
func (c *Client) open(ctx context.Context, to membership.Ref, q request) (*tls.Conn, membership.Answer) {
	limit := max(c.limit(), dialLimit)
	switch q.Want {
	case wantBeats:
		limit = lineLimit
	case wantReach:
		limit += reachLimit
	}
	return c.openPunctually(ctx, limit, to, q)
}

// openPunctually tries again if this process was not running when the answer may have come.
func (c *Client) openPunctually(
	ctx context.Context, limit time.Duration, to membership.Ref, q request,
) (*tls.Conn, membership.Answer) {
	began := time.Now()
	t, a := c.within(ctx, limit, to, q)
	if a.Kind == membership.NoAnswer && time.Since(began) > limit+limit/4 && ctx.Err() == nil {
		return c.within(ctx, limit, to, q)
	}
	return t, a
}

func (c *Client) within(
	ctx context.Context, limit time.Duration, to membership.Ref, q request,
) (*tls.Conn, membership.Answer) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, first := c.once(ctx, to, q)
	if decides(first) {
		return t, first
	}
	t, second := c.once(ctx, to, q)
	if decides(second) || second.Kind == first.Kind {
		return t, second
	}
	return nil, membership.Answer{}
}

func decides(a membership.Answer) bool {
	return a.Kind == membership.Same || a.Kind == membership.Other || a.Kind == membership.Refused
}

func (c *Client) once(ctx context.Context, to membership.Ref, q request) (*tls.Conn, membership.Answer) {
	raw, err := (&net.Dialer{Timeout: joinLimit}).DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, membership.Answer{Kind: dialKind(to, err)}
	}
	if tcp, ok := raw.(*net.TCPConn); ok && q.Want == wantBeats {
		giveUpAfter(tcp, userLimit) // without it the missed beats end the stream, later
	}
	t := tls.Client(raw, c.proof.Load().streams)
	r, err := c.exchange(ctx, t, q)
	if err != nil {
		t.Close()
		return nil, membership.Answer{Kind: handshakeKind(err)}
	}
	me := c.self.Hello()
	a := r.answer(me, to)
	if a.Kind == membership.Stranger || a.Kind == membership.NoAnswer {
		t.Close()
		return nil, a
	}
	c.self.heard(r.Generation)
	return t, a
}

func (c *Client) exchange(ctx context.Context, t *tls.Conn, q request) (r reply, err error) {
	if err := t.HandshakeContext(ctx); err != nil {
		return r, fmt.Errorf("handshake: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { t.NetConn().Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
	}()
	q.Generation = c.self.Hello().Generation
	if err := send(t, q); err != nil {
		return r, err
	}
	return r, receive(t, &r)
}

// dialKind classifies the error of a dial. Only a refusal by the node's own host counts. If a name
// was dialled, the host may be another one.
func dialKind(to membership.Ref, err error) membership.AnswerKind {
	if _, literal := netip.ParseAddrPort(to.Address); literal == nil && errors.Is(err, syscall.ECONNREFUSED) {
		return membership.Refused
	}
	return membership.NoAnswer
}

// handshakeKind classifies the error of a handshake. A process that answers in another way than an
// agent of this job is a stranger. A process that is silent or closes the connection proves
// nothing.
func handshakeKind(err error) membership.AnswerKind {
	var alert *net.OpError
	var record tls.RecordHeaderError
	if errors.Is(err, ErrStranger) || errors.As(err, &record) ||
		errors.As(err, &alert) && alert.Op == "remote error" {
		return membership.Stranger
	}
	return membership.NoAnswer
}

// newTransport returns the transport for chunks, which reuses connections. It uses no proxy and no
// compression.
func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, lineLimit)
			defer cancel()
			raw, err := (&net.Dialer{Timeout: joinLimit, KeepAliveConfig: chunkKeepAlive}).
				DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			endAfterCut(raw)
			t := tls.Client(&timedConn{raw}, config)
			if err := t.HandshakeContext(ctx); err != nil {
				raw.Close()
				return nil, err
			}
			return t, nil
		},
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        stallLimit / 2, // before the other end closes the connection
		ResponseHeaderTimeout:  stallLimit,
		MaxResponseHeaderBytes: 16 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
}

// chunkKeepAlive sets how often the kernel checks that the other host of an idle connection still answers. A
// connection that waits for a reply is idle too.
var chunkKeepAlive = net.KeepAliveConfig{Enable: true, Idle: flowLimit / 4, Interval: flowLimit / 4}

// endAfterCut ends a connection for chunks flowLimit after the network failed. TCP repeats lost data
// ever more slowly, so after a failure the connection stays silent for as long again. A new
// connection works at once.
func endAfterCut(raw net.Conn) {
	if tcp, ok := raw.(*net.TCPConn); ok {
		giveUpAfter(tcp, flowLimit) // without it stallLimit ends the connection, later
	}
}

// timedConn is a connection with a time limit for each read and each write.
type timedConn struct{ net.Conn }

func (f *timedConn) Read(p []byte) (int, error) {
	f.SetReadDeadline(time.Now().Add(stallLimit))
	return f.Conn.Read(p)
}

func (f *timedConn) Write(p []byte) (int, error) {
	f.SetWriteDeadline(time.Now().Add(stallLimit))
	return f.Conn.Write(p)
}

// To returns a RoundTripper to one agent. It dials the address of to, whatever the host of the URL.
// Another incarnation of the node answers 421. The error is ErrStranger if the process at the
// address does not know the secret.
func (c *Client) To(to membership.Ref) http.RoundTripper { return roundTripper{c, to} }

type roundTripper struct {
	c  *Client
	to membership.Ref
}

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "https", t.to.Address, ""
	r.Header.Set(headerTo, name(t.to))
	r.Header.Set(headerGeneration, strconv.FormatUint(uint64(t.c.self.Hello().Generation), 10))
	res, err := t.c.proof.Load().chunks.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if g, err := schema.ParseGeneration(res.Header.Get(headerGeneration)); err == nil {
		t.c.self.heard(g)
	}
	return res, nil
}
