package coordinator

// This file bounds the connections that strangers hold at an address.

import (
	"net"
	"slices"
	"sync"
)

// MaxConnections is how many connections an address has. etcd's address for clients leaves 150 descriptors of
// the process to everything else.
const MaxConnections = 64

// ListenBounded returns a listener at HOST:PORT that closes its oldest connection where there would be more
// than MaxConnections. Otherwise strangers could take every descriptor, and etcd ends the process that
// has none left.
func ListenBounded(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	return &listener{Listener: l}, err
}

type listener struct {
	net.Listener

	mu   sync.Mutex
	open []*conn // the oldest first
}

type conn struct {
	net.Conn
	of *listener
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{raw, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) > MaxConnections {
		l.open[0].Conn.Close()
		l.open = slices.Delete(l.open, 0, 1)
	}
	return c, nil
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open = slices.DeleteFunc(c.of.open, func(o *conn) bool { return o == c })
	return c.Conn.Close()
}
