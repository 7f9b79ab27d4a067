package etcd_test

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between a store and one member, and can be paused as a member
// can: connections stay open, new ones are accepted, nothing moves.
type proxy struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	running chan struct{} // closed while it runs
	conns   []net.Conn
	dials   int
	wg      sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, running: make(chan struct{})}
	close(p.running)
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		p.resume()
		l.Close()
		p.drop()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		p.dials++
		p.conns = append(p.conns, from, to)
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(to, from) })
		p.wg.Go(func() { p.pass(from, to) })
	}
}

func (p *proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		running := p.running
		p.mu.Unlock()
		<-running
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.running:
	default:
		close(p.running)
	}
}

// drop closes all connections.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) dialed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}
