package peer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestProbe(t *testing.T) {
	a, b := newAgent("a", "a1"), newAgent("b", "b1").serve(t, secret, defaultLimits())
	b.change(func(h *Hello) { h.Failed = true })
	c := a.client(t, secret)

	want := membership.Answer{Kind: membership.Same, Incarnation: "b1", Generation: 3, Failed: true}
	if got := c.Probe(t.Context(), b.ref()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	old := b.ref()
	b.change(func(h *Hello) { h.Incarnation = "b2" })
	if got := c.Probe(t.Context(), old); got.Kind != membership.Other || got.Incarnation != "b2" {
		t.Errorf("another life: %+v", got)
	}
	b.change(func(h *Hello) { h.UID = "u2" })
	if got := c.Probe(t.Context(), old); got != (membership.Answer{Kind: membership.Stranger}) {
		t.Errorf("another job: %+v", got)
	}
	b.change(func(h *Hello) { h.UID, h.Stalled = "u1", true })
	if got := c.Probe(t.Context(), old); got != (membership.Answer{}) {
		t.Errorf("its loop hangs: %+v", got)
	}
	closeServer(t, b.srv)
	if got := c.Probe(t.Context(), old); got.Kind != membership.Refused {
		t.Errorf("no process listens: %+v", got)
	}
}

func TestProbeOfMyself(t *testing.T) {
	a := newAgent("a", "a1").serve(t, secret, defaultLimits())
	to := membership.Ref{Node: "b", Incarnation: "b1", Address: a.srv.Addr()}
	if got := a.client(t, secret).Probe(t.Context(), to); got != (membership.Answer{}) {
		t.Errorf("%+v", got)
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	stuck := speaker(t, drain)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if got := newAgent("a", "a1").client(t, secret).Probe(ctx, stuck); got != (membership.Answer{}) {
		t.Errorf("%+v", got)
	}
}

func TestWrongSecretIsAStrangerOnBothEnds(t *testing.T) {
	other := []byte(strings.Repeat("z", 32))
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	c := newAgent("a", "a1").client(t, other)
	if got := c.Probe(t.Context(), b.ref()); got.Kind != membership.Stranger {
		t.Errorf("%+v", got)
	}

	// One that skips its own check is shut out by the listener: it gets no hello.
	id, err := identify(other)
	if err != nil {
		t.Fatal(err)
	}
	liar := id.config(streamProto)
	liar.VerifyConnection = nil
	for name, config := range map[string]*tls.Config{
		"another key":       liar,
		"no key":            {InsecureSkipVerify: true, NextProtos: []string{streamProto}},
		"no protocol":       withoutProto(t),
		"an older protocol": older(t),
	} {
		conn, err := tls.Dial("tcp", b.srv.Addr(), config)
		if err != nil {
			continue // refused in the handshake already
		}
		send(conn, request{Want: wantHello})
		if n, err := io.Copy(io.Discard, conn); n != 0 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		conn.Close()
	}
	if got := newAgent("a", "a1").client(t, secret).Probe(t.Context(), b.ref()); got.Kind != membership.Same {
		t.Errorf("after all of that: %+v", got)
	}
}

func withoutProto(t *testing.T) *tls.Config {
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	c := id.config()
	c.VerifyConnection = nil
	return c
}

func older(t *testing.T) *tls.Config {
	c := withoutProto(t)
	c.NextProtos, c.MinVersion, c.MaxVersion = []string{streamProto}, tls.VersionTLS12, tls.VersionTLS12
	return c
}

func TestProbeOfWhatIsNoAgent(t *testing.T) {
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	c := newAgent("a", "a1").client(t, secret)
	say := func(s string) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, s); drain(c) }
	}
	inside := func(f func(*tls.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			t := tls.Server(c, id.config(streamProto))
			var q request
			if t.Handshake() == nil && receive(t, &q) == nil {
				f(t)
			}
		}
	}
	for name, x := range map[string]struct {
		speak func(net.Conn)
		short bool
		want  membership.AnswerKind
	}{
		"ssh":            {say("SSH-2.0-OpenSSH_9.2p1\r\n"), false, membership.Stranger},
		"http":           {say("HTTP/1.1 400 Bad Request\r\n\r\n"), false, membership.Stranger},
		"closes at once": {func(net.Conn) {}, false, membership.NoAnswer},
		"resets at once": {func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, false,
			membership.NoAnswer},
		"reads and says nothing":   {drain, true, membership.NoAnswer},
		"stalls after half a word": {say("\x16\x03"), true, membership.NoAnswer},
		"TLS without our key": {func(c net.Conn) { tls.Server(c, strange(t)).Handshake(); drain(c) }, false,
			membership.Stranger},
		"no hello": {inside(func(*tls.Conn) {}), false, membership.NoAnswer},
		"a hello of 64 kB": {inside(func(c *tls.Conn) { c.Write([]byte{0xff, 0xff}); drain(c) }), false,
			membership.NoAnswer},
		"a hello of nonsense": {inside(func(c *tls.Conn) { c.Write([]byte("\x00\x03{}}")); drain(c) }), false,
			membership.NoAnswer},
		"half a hello": {inside(func(c *tls.Conn) { c.Write([]byte("\x00\x30{")); drain(c) }), true,
			membership.NoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			cl := c
			if x.short {
				cl = c.short()
			}
			if got := cl.Probe(t.Context(), speaker(t, x.speak)); got.Kind != x.want {
				t.Errorf("%s, want %s", got.Kind, x.want)
			}
		})
	}
}

func strange(t *testing.T) *tls.Config {
	id, err := identify([]byte(strings.Repeat("z", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return id.config(streamProto)
}

// One dial that ends in a reset, or in nonsense, is asked again before it counts.
func TestProbeTriesAgain(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	for name, first := range map[string]string{"reset": "", "damage": "\x00\x00\x00\x00\x00\x00"} {
		var seen int
		flaky := speaker(t, oneByOne(func(c net.Conn) {
			if seen++; seen == 1 {
				io.WriteString(c, first)
				return
			}
			through, err := net.Dial("tcp", b.srv.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			go func() { io.Copy(through, c); through.Close() }()
			io.Copy(c, through)
		}))
		to := b.ref()
		to.Address = flaky.Address
		if got := newAgent("a", "a1").client(t, secret).Probe(t.Context(), to); got.Kind != membership.Same {
			t.Errorf("%s: %s", name, got.Kind)
		}
	}
}

// Two dials that disagree prove nothing.
func TestProbeWantsTwoDialsToAgree(t *testing.T) {
	for name, say := range map[string][2]string{
		"nonsense, then nothing": {"SSH-2.0-x\r\n", ""},
		"nothing, then nonsense": {"", "SSH-2.0-x\r\n"},
	} {
		var seen int
		to := speaker(t, oneByOne(func(c net.Conn) {
			io.WriteString(c, say[seen%2])
			seen++
		}))
		if got := newAgent("a", "a1").client(t, secret).Probe(t.Context(), to); got != (membership.Answer{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// oneByOne runs f for one connection at a time.
func oneByOne(f func(net.Conn)) func(net.Conn) {
	one := make(chan struct{}, 1)
	return func(c net.Conn) { one <- struct{}{}; f(c); <-one }
}

func TestBeforeServeNoNodeLooksDead(t *testing.T) {
	srv, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newAgent("b", "b1")
	b.srv = srv
	defer closeServer(t, srv)
	c := newAgent("a", "a1").client(t, secret)
	if got := c.short().Probe(t.Context(), b.ref()); got != (membership.Answer{}) {
		t.Errorf("%+v", got)
	}
	answer := make(chan membership.Answer)
	go func() { answer <- c.Probe(context.Background(), b.ref()) }()
	if err := srv.Serve(secret, b.self()); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.Kind != membership.Same {
		t.Errorf("%+v", got)
	}
	if err := srv.Serve(secret, b.self()); err == nil {
		t.Error("served twice")
	}
}

func TestCloseBeforeServe(t *testing.T) {
	srv, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeServer(t, srv)
	if err := srv.Serve(secret, newAgent("b", "b1").self()); err == nil {
		t.Error("served after Close")
	}
	closeServer(t, srv)
}

func TestAsk(t *testing.T) {
	var held atomic.Pointer[membership.Ref]
	b := newAgent("b", "b1")
	b.doubts = func(r membership.Ref) bool { h := held.Load(); return h != nil && h.Same(r) }
	b.serve(t, secret, defaultLimits())
	c := newAgent("a", "a1").client(t, secret)
	about := membership.Ref{Node: "c", Incarnation: "c1", Address: "10.0.0.3:1"}
	ask := func(about membership.Ref) bool {
		t.Helper()
		holds, err := c.Ask(t.Context(), b.ref(), about)
		if err != nil {
			t.Error(err)
		}
		return holds
	}
	if ask(about) {
		t.Error("holds what it never held")
	}
	held.Store(&about)
	if !ask(about) {
		t.Error("does not hold what it holds")
	}
	next := about
	next.Incarnation = "c2"
	if ask(next) {
		t.Error("a suspicion of one life counts for the next")
	}
	was := b.ref()
	b.change(func(h *Hello) { h.Incarnation = "b2" })
	if holds, err := c.Ask(t.Context(), was, about); err == nil || holds {
		t.Errorf("another life answers for it: %v, %v", holds, err)
	}
}

// A node that is asked to dial an address reports the result. Any agent of the job counts, also one
// that has not joined yet; only addresses are dialled, never names.
func TestReach(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	me := newAgent("a", "a1").serve(t, secret, defaultLimits())
	me.change(func(h *Hello) { h.Stalled = true })
	stranger := newAgent("a", "a1").serve(t, []byte("another secret than that one"), defaultLimits())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	c := me.client(t, secret)
	_, port, _ := net.SplitHostPort(me.srv.Addr())
	for address, want := range map[string]membership.AnswerKind{me.srv.Addr(): membership.Same,
		stranger.srv.Addr():    membership.Stranger,
		closed.Addr().String(): membership.Refused, "localhost:" + port: membership.NoAnswer,
		"": membership.NoAnswer} {
		if got, err := c.Reach(t.Context(), b.ref(), address); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", address, got, err, want)
		}
	}
	was := b.ref()
	b.change(func(h *Hello) { h.Incarnation = "b2" })
	if kind, err := c.Reach(t.Context(), was, me.srv.Addr()); err == nil || kind == membership.Same {
		t.Errorf("another life answers for it: %v, %v", kind, err)
	}
}

func TestGenerationsAreHeardOnBothEnds(t *testing.T) {
	a, b := newAgent("a", "a1"), newAgent("b", "b1").serve(t, secret, defaultLimits())
	c := a.client(t, secret)
	a.change(func(h *Hello) { h.Generation = 8 })
	c.Probe(t.Context(), b.ref())
	if g := <-b.heard; g != 8 {
		t.Errorf("the listener heard %d", g)
	}
	b.change(func(h *Hello) { h.Generation = 9 })
	c.Probe(t.Context(), b.ref())
	if g := <-a.heard; g != 9 {
		t.Errorf("the dialler heard %d", g)
	}
	a.change(func(h *Hello) { h.Generation = 9 })

	follow(t, c, b.ref(), func(beat func() membership.Answer) {
		a.change(func(h *Hello) { h.Generation = 10 })
		beat()
		if g := <-b.heard; g != 10 {
			t.Errorf("the watched heard %d", g)
		}
		b.change(func(h *Hello) { h.Generation, h.Failed = 11, true })
		if got := beat(); got.Generation != 11 || !got.Failed || got.Ended {
			t.Errorf("beat %+v", got)
		}
		if g := <-a.heard; g != 11 {
			t.Errorf("the watcher heard %d", g)
		}
	})
}

// follow runs f beside a stream to to; beat sends one and waits for its answer. It returns what
// Follow does.
func follow(
	t *testing.T, c *Client, to membership.Ref, f func(beat func() membership.Answer),
) membership.Answer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	beats, heard := make(chan struct{}), make(chan membership.Answer, 1000)
	result := make(chan membership.Answer, 1)
	go func() { result <- c.Follow(ctx, to, beats, func(a membership.Answer) { heard <- a }) }()
	if first := <-heard; first.Kind != membership.Same {
		t.Errorf("first %+v", first)
	}
	f(func() membership.Answer {
		beats <- struct{}{}
		return <-heard
	})
	cancel()
	return <-result
}

func TestFollowEndsAfterTheLastMessage(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave, result := make(chan struct{}), make(chan struct{}), make(chan membership.Answer, 1)
	c := newAgent("a", "a1").client(t, secret)
	go func() {
		result <- c.Follow(ctx, b.ref(), nil, func(membership.Answer) { close(entered); <-leave })
	}()
	<-entered
	cancel()
	select {
	case <-result:
		t.Error("it returned, and may still report")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	<-result
}

func TestStalledLoopIsSilentAndComesBack(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	beats, heard := make(chan struct{}), make(chan membership.Answer, 10)
	result := make(chan membership.Answer, 1)
	c := newAgent("a", "a1").client(t, secret)
	go func() { result <- c.Follow(ctx, b.ref(), beats, func(a membership.Answer) { heard <- a }) }()
	<-heard
	b.change(func(h *Hello) { h.Stalled, h.Generation = true, 100 })
	beats <- struct{}{}
	beats <- struct{}{}
	// The listener has read both when it answers the third, which it gets in order.
	b.change(func(h *Hello) { h.Generation = 101 })
	select {
	case a := <-heard:
		t.Errorf("a hanging loop answered: %+v", a)
	case <-time.After(100 * time.Millisecond):
	}
	b.change(func(h *Hello) { h.Stalled = false })
	beats <- struct{}{}
	if a := <-heard; a.Generation != 101 {
		t.Errorf("%+v", a)
	}
	cancel()
	<-result
}

func TestStreamEndsWithTheLifeItIsAbout(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	c := newAgent("a", "a1").client(t, secret)
	beats, heard := make(chan struct{}, 1), make(chan membership.Answer, 10)
	result := make(chan membership.Answer, 1)
	to := b.ref()
	go func() {
		result <- c.Follow(context.Background(), to, beats, func(a membership.Answer) { heard <- a })
	}()
	<-heard
	b.change(func(h *Hello) { h.Incarnation = "b2" })
	beats <- struct{}{}
	if got := <-result; got != (membership.Answer{}) || len(heard) != 0 {
		t.Errorf("%+v, %d answers", got, len(heard))
	}
	if got := c.Follow(t.Context(), to, beats,
		func(membership.Answer) { t.Error("heard another life") }); got.Kind != membership.Other {
		t.Errorf("dialled again: %+v", got)
	}
}

func TestFloodOfBeatsEndsTheStream(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	conn := rawStream(t, b)
	var frames []byte
	for range 10 * floodLimit {
		frames = binary.BigEndian.AppendUint64(append(frames, 0), uint64(schema.MaxGeneration)) // and a lie
		// and one that no job can be at
		frames = binary.BigEndian.AppendUint64(append(frames, 0), 1<<63)
	}
	conn.Write(frames)
	n, _ := io.Copy(io.Discard, conn)
	if n > 9*(floodLimit+1) {
		t.Errorf("%d beats answered", n/9)
	}
	if heard := len(b.heard); heard != 1 {
		t.Errorf("the lie was passed on %d times", heard)
	}
	if got := newAgent("a", "a1").client(t, secret).Probe(t.Context(), b.ref()); got.Kind != membership.Same {
		t.Errorf("%+v", got)
	}
}

// rawStream is a stream of beats without a Client, past the hello.
func rawStream(t *testing.T, b *agent) *tls.Conn {
	t.Helper()
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", b.srv.Addr(), id.config(streamProto))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var r reply
	if err := send(conn, request{Want: wantBeats, Generation: 1}); err != nil {
		t.Fatal(err)
	}
	if err := receive(conn, &r); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestFloodOfAnswersEndsTheStream(t *testing.T) {
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	liar := speaker(t, func(c net.Conn) {
		t := tls.Server(c, id.config(streamProto))
		var q request
		if receive(t, &q) != nil {
			return
		}
		send(t, reply{Hello: *newAgent("b", "b1").hello.Load()})
		t.Write(make([]byte, 9*10*floodLimit))
		drain(t)
	})
	answers := 0
	got := newAgent("a", "a1").client(t, secret).
		Follow(t.Context(), liar, nil, func(membership.Answer) { answers++ })
	if got != (membership.Answer{}) || answers > floodLimit+1 {
		t.Errorf("%+v after %d answers", got, answers)
	}
}

// TestHonestGetThroughAFlood fills the listener with connections that prove nothing.
func TestHonestGetThroughAFlood(t *testing.T) {
	l := defaultLimits()
	l.pending, l.pendingFrom = 16, 8
	b := newAgent("b", "b1").serve(t, secret, l)
	c := newAgent("a", "a1").client(t, secret)
	for i := range 100 {
		conn, err := net.Dial("tcp", b.srv.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn,
			[...]string{"", "\x16", "GET / HTTP/1.1\r\nHost: x\r\n", strings.Repeat("A", 70000)}[i%4])
	}
	if got := c.Probe(t.Context(), b.ref()); got.Kind != membership.Same {
		t.Errorf("%+v", got)
	}
	b.srv.gate.mu.Lock()
	defer b.srv.gate.mu.Unlock()
	if n := b.srv.gate.count[pending]; n > l.pendingFrom {
		t.Errorf("%d connections of one stranger", n)
	}
}

// TestUnprovenPeerIsShutOut lets peers stall at each point before their first request is whole.
func TestUnprovenPeerIsShutOut(t *testing.T) {
	l := defaultLimits()
	l.prove = 100 * time.Millisecond
	b := newAgent("b", "b1").serve(t, secret, l)
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	inside := func(proto, say string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			conn, err := tls.Dial("tcp", b.srv.Addr(), id.config(proto))
			if err == nil {
				io.WriteString(conn, say)
			}
			return conn, err
		}
	}
	for name, dial := range map[string]func() (net.Conn, error){
		"silent":          func() (net.Conn, error) { return net.Dial("tcp", b.srv.Addr()) },
		"no request":      inside(streamProto, ""),
		"half a request":  inside(streamProto, "\x00\x30{"),
		"no HTTP request": inside(chunkProto, ""),
		"half a head":     inside(chunkProto, "GET / HTTP/1.1\r\nHost: b\r\nX: "),
	} {
		conn, err := dial()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		io.Copy(io.Discard, conn) // ends, or the test does not
		conn.Close()
	}
}

func TestStreamsHaveALimitAndGiveTheirPlaceBack(t *testing.T) {
	l := defaultLimits()
	l.streamsFrom = 2
	b := newAgent("b", "b1").serve(t, secret, l)
	c := newAgent("a", "a1").client(t, secret)
	one := rawStream(t, b)
	rawStream(t, b)
	if got := c.Probe(t.Context(), b.ref()); got != (membership.Answer{}) {
		t.Errorf("a third: %+v", got) // closed: silence, never a stranger or a refusal
	}
	one.Close()
	// The listener takes note of the end in its own time; a probe that comes too early sees the
	// limit.
	for c.Probe(t.Context(), b.ref()).Kind != membership.Same {
		if t.Context().Err() != nil {
			t.Fatal("the place is never given back")
		}
	}
}

func TestCloseEndsStreamsAndStalledPeers(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	stream := rawStream(t, b)
	half, err := net.Dial("tcp", b.srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	closeServer(t, b.srv)
	if n, _ := io.Copy(io.Discard, stream); n != 0 {
		t.Errorf("%d bytes after the end", n)
	}
	if n, _ := io.Copy(io.Discard, half); n != 0 {
		t.Errorf("%d bytes for a stranger", n)
	}
}

func TestGateCounts(t *testing.T) {
	g := newGate(limits{pending: 3, pendingFrom: 10, streams: 1, streamsFrom: 1, chunks: 1, chunksFrom: 1})
	var conns []*conn
	for range 4 {
		a, b := net.Pipe()
		defer b.Close()
		conns = append(conns, g.admit(a))
	}
	if g.prove(conns[0], streams) {
		t.Error("the oldest should be gone")
	}
	if !g.prove(conns[1], streams) || g.prove(conns[2], streams) || !g.prove(conns[2], chunks) {
		t.Error("one stream, one of chunks")
	}
	for range 4 { // a proven connection is no stranger's any more, however old it is
		a, b := net.Pipe()
		defer b.Close()
		conns = append(conns, g.admit(a))
	}
	if g.count != [uses]int{pending: 3, streams: 1, chunks: 1} {
		t.Errorf("count %v", g.count)
	}
	for _, c := range conns {
		c.Close()
		c.Close()
	}
	if g.count != [uses]int{} || len(g.open) != 0 || len(g.waiting) != 0 {
		t.Errorf("left behind: %v, %d, %d", g.count, len(g.open), len(g.waiting))
	}
	for u, from := range g.from {
		if len(from) != 0 {
			t.Errorf("use %d: %v", u, from)
		}
	}
	g.close()
	a, b := net.Pipe()
	defer b.Close()
	if g.admit(a) != nil {
		t.Error("admitted after close")
	}
}

func TestRemoteIsAHost(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:4":           "10.1.2.3/32",
		"[::ffff:10.1.2.3]:4":  "10.1.2.3/32",
		"[2001:db8::1:2:3]:4":  "2001:db8::/64",
		"[fe80::1%eth0]:12345": "fe80::/64",
	} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := remote(addressed{addr: a}).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

type addressed struct {
	net.Conn
	addr net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.addr }

var _ membership.Link = (*Client)(nil)
