package peer

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// limits are how many connections a listener keeps. Those that have proven nothing are at most
// pending.
type limits struct {
	pending, pendingFrom int           // secret not proven yet; the same, from one remote
	streams, streamsFrom int           // probes and beats
	chunks, chunksFrom   int           // HTTP
	prove                time.Duration // from accept until the head of the first request is read
}

func defaultLimits() limits {
	return limits{pending: 256, pendingFrom: 64, streams: 1024, streamsFrom: 512, chunks: 512,
		chunksFrom: 256, prove: 10 * time.Second}
}

type use int

const (
	pending use = iota // before the end of the handshake and the first request
	streams
	chunks
	uses
)

// gate counts the connections of one listener, and closes some if there are too many.
type gate struct {
	limits limits

	mu      sync.Mutex
	closed  bool
	open    map[*conn]struct{}
	waiting []*conn // pending connections, oldest first
	count   [uses]int
	from    [uses]map[netip.Prefix]int
}

func newGate(l limits) *gate {
	g := &gate{limits: l, open: map[*conn]struct{}{}}
	for u := range g.from {
		g.from[u] = map[netip.Prefix]int{}
	}
	return g
}

// conn is a connection. The gate counts it until it is closed.
type conn struct {
	net.Conn
	gate   *gate
	remote netip.Prefix
	use    use // written by the goroutine of welcome, before others read it
}

// admit counts a new connection. If too many are pending, it closes the oldest. An agent proves the
// secret within milliseconds, so it gets through a flood. It returns nil if it closed raw.
func (g *gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g, remote: remote(raw)}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		raw.Close()
		return nil
	}
	var evicted *conn
	if g.from[pending][c.remote] >= g.limits.pendingFrom {
		evicted = g.oldest(func(o *conn) bool { return o.remote == c.remote })
	} else if g.count[pending] >= g.limits.pending {
		evicted = g.oldest(func(*conn) bool { return true })
	}
	if evicted != nil {
		g.drop(evicted)
	}
	g.open[c] = struct{}{}
	g.waiting = append(g.waiting, c)
	g.add(c, 1)
	g.mu.Unlock()
	if evicted != nil {
		evicted.Close()
	}
	return c
}

// prove counts c, which has proven the secret, under its use. It returns false if there are too
// many.
func (g *gate) prove(c *conn, u use) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.open[c]; !ok {
		return false // closed meanwhile
	}
	most, mostFrom := g.limits.streams, g.limits.streamsFrom
	if u == chunks {
		most, mostFrom = g.limits.chunks, g.limits.chunksFrom
	}
	if g.count[u] >= most || g.from[u][c.remote] >= mostFrom {
		return false
	}
	g.add(c, -1)
	g.unwait(c)
	c.use = u
	g.add(c, 1)
	return true
}

// close closes all connections, and refuses new ones.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	all := make([]*conn, 0, len(g.open))
	for c := range g.open {
		all = append(all, c)
	}
	g.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

func (c *conn) Close() error {
	c.gate.mu.Lock()
	c.gate.drop(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// Write may take any time while bytes are sent.
func (c *conn) Write(p []byte) (int, error) {
	if c.use == chunks {
		c.SetWriteDeadline(time.Now().Add(stallLimit))
	}
	return c.Conn.Write(p)
}

// The callers of the functions below hold mu.

func (g *gate) drop(c *conn) {
	if _, ok := g.open[c]; !ok {
		return
	}
	delete(g.open, c)
	g.add(c, -1)
	g.unwait(c)
}

func (g *gate) add(c *conn, n int) {
	g.count[c.use] += n
	g.from[c.use][c.remote] += n
	if g.from[c.use][c.remote] == 0 {
		delete(g.from[c.use], c.remote)
	}
}

func (g *gate) oldest(of func(*conn) bool) *conn {
	for _, c := range g.waiting {
		if of(c) {
			return c
		}
	}
	return nil
}

func (g *gate) unwait(c *conn) {
	for i, o := range g.waiting {
		if o == c {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return
		}
	}
}

// remote returns the network of the peer: its IPv4 address, or its IPv6 /64, in which a host can
// choose any address.
func remote(c net.Conn) netip.Prefix {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := at.AddrPort().Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits)
	return p
}
