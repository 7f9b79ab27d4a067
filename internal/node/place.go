package node

import (
	"net"
	"strconv"
	"sync"

	"github.com/elasticd/elastic/internal/peer"
)

// place is where this node listens, and is dialled by others.
type place struct {
	server *peer.Server
	port   int
	now    func() string // the address to be at, "" if that cannot be said; nil: host was given

	mu   sync.Mutex // guards host: who asks may come from anywhere
	host string
}

// Here is the listener's address. A machine that got another one (a network that was left and
// joined again, a new DHCP lease) has its listener there from now on.
func (p *place) Here() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || isOurs(p.host) {
		return p.server.Addr()
	}
	if host := p.now(); host != "" && host != p.host {
		// Where it cannot listen others cannot dial it: they find it silent, and it asks again when
		// it joins again.
		if err := p.server.Move(net.JoinHostPort(host, strconv.Itoa(p.port))); err == nil {
			p.host = host
		}
	}
	return p.server.Addr()
}

// isOurs reports whether host is an address of this machine that others may dial.
func isOurs(host string) bool {
	ip := net.ParseIP(host)
	addrs, err := net.InterfaceAddrs()
	if err != nil || ip.IsLoopback() {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
