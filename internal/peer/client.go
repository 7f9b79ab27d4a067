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

// Client dials the listeners of a job's other agents. It is a membership.Link.
type Client struct {
	self  Self
	limit func() time.Duration // of a dial, to the hello
	pace  *pace
	proof *atomic.Pointer[credentials]
}

// credentials are how this agent proves itself, under one secret.
type credentials struct {
	streams *tls.Config
	chunks  *http.Transport
}

// Dial returns a Client of the job that secret belongs to. It dials no node yet.
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

// Rekey proves with another secret from now on: that of the job that succeeds this one.
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

// Close ends the connections that wait for a next request.
func (c *Client) Close() { c.proof.Load().chunks.CloseIdleConnections() }

// Probe dials to once and says what that brought.
func (c *Client) Probe(ctx context.Context, to membership.Ref) membership.Answer {
	return c.hello(ctx, max(c.limit(), dialLimit), to)
}

// Confirm is Probe for no longer than an answer takes on the ways that this agent knows.
func (c *Client) Confirm(ctx context.Context, to membership.Ref) membership.Answer {
	return c.hello(ctx, c.limit(), to)
}

func (c *Client) hello(ctx context.Context, limit time.Duration, to membership.Ref) membership.Answer {
	t, a := c.punctual(ctx, limit, to, request{Want: wantHello})
	if t != nil {
		t.Close()
	}
	return a
}

// Ask asks watcher whether it still holds its suspicion of about. A node
// that does not answer as that very incarnation holds nothing that counts; the error says why.
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

// Reach asks by to dial address, which is this agent's own, and returns what that brought. The
// error says why by did not answer.
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

// Follow keeps one stream of beats to to; see membership.Link.
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

// listen passes the answers to beats on until the stream breaks.
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

// open dials to and asks q. It returns a connection when a node of this job answered.
//
// A reset before the hello may be a listener on its way down, and nonsense may be damage on the
// way: neither counts before a second dial brought the same.
func (c *Client) open(ctx context.Context, to membership.Ref, q request) (*tls.Conn, membership.Answer) {
	limit := max(c.limit(), dialLimit)
	switch q.Want {
	case wantBeats:
		limit = lineLimit
	case wantReach:
		limit += reachLimit
	}
	return c.punctual(ctx, limit, to, q)
}

// punctual asks once more where this process did not run when the answer may have come.
func (c *Client) punctual(
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
		return nil, membership.Answer{Kind: refusal(to, err)}
	}
	if tcp, ok := raw.(*net.TCPConn); ok && q.Want == wantBeats {
		giveUpAfter(tcp, userLimit) // without it the watcher gives up after its missed beats all the same
	}
	t := tls.Client(raw, c.proof.Load().streams)
	r, err := c.exchange(ctx, t, q)
	if err != nil {
		t.Close()
		return nil, membership.Answer{Kind: strangeness(err)}
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

// refusal sorts the error of a dial. Only a host that answers refuses a connection. Where a name
// was dialled, that may have been another host.
func refusal(to membership.Ref, err error) membership.AnswerKind {
	if _, literal := netip.ParseAddrPort(to.Address); literal == nil && errors.Is(err, syscall.ECONNREFUSED) {
		return membership.Refused
	}
	return membership.NoAnswer
}

// strangeness sorts the error of a handshake: a process that answers, but not as this job's
// agents do, is a stranger. One that is silent or hangs up proves nothing.
func strangeness(err error) membership.AnswerKind {
	var alert *net.OpError
	var record tls.RecordHeaderError
	if errors.Is(err, ErrStranger) || errors.As(err, &record) ||
		errors.As(err, &alert) && alert.Op == "remote error" {
		return membership.Stranger
	}
	return membership.NoAnswer
}

// newTransport keeps connections for chunks. It knows no proxy and takes no answer in another
// encoding.
func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, lineLimit)
			defer cancel()
			raw, err := (&net.Dialer{Timeout: joinLimit, KeepAliveConfig: asks}).
				DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			outlives(raw)
			t := tls.Client(&flowing{raw}, config)
			if err := t.HandshakeContext(ctx); err != nil {
				raw.Close()
				return nil, err
			}
			return t, nil
		},
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        stallLimit / 2, // before the other end does it
		ResponseHeaderTimeout:  stallLimit,
		MaxResponseHeaderBytes: 16 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
}

// asks is how often an idle connection for chunks, also one that waits for an answer, probes
// whether the other host is there.
var asks = net.KeepAliveConfig{Enable: true, Idle: flowLimit / 4, Interval: flowLimit / 4}

// outlives gives a connection for chunks no longer than flowLimit to outlive a cut. TCP sends again
// at ever longer intervals, so that after a cut the connection is silent for as long again as the
// cut was; a new connection is not.
func outlives(raw net.Conn) {
	if tcp, ok := raw.(*net.TCPConn); ok {
		giveUpAfter(tcp, flowLimit) // without it stallLimit ends it, later
	}
}

// flowing is a connection on which each read and each write must move on in time.
type flowing struct{ net.Conn }

func (f *flowing) Read(p []byte) (int, error) {
	f.SetReadDeadline(time.Now().Add(stallLimit))
	return f.Conn.Read(p)
}

func (f *flowing) Write(p []byte) (int, error) {
	f.SetWriteDeadline(time.Now().Add(stallLimit))
	return f.Conn.Write(p)
}

// To returns a RoundTripper to one agent: whatever host a URL names, it dials to's address and
// nothing else, and another life of the node answers 421. An error is ErrStranger when the
// process at that address does not know the secret.
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
