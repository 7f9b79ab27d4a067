package peers

import (
	"net"
	"strconv"
	"sync"

	"github.com/elasticd/elastic/internal/peer"
)

// Place is the address at which this node listens.
type Place struct {
	Server *peer.Server
	Port   int
	Now    func() string // the machine's address now, "" if unknown; nil: the user gave it

	mu   sync.Mutex // guards host: any goroutine may ask
	Host string
}

// Here returns the address of the listener. If the machine has a new address (it changed networks,
// or DHCP gave it another one), Here moves the listener there first.
func (p *Place) Here() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Now == nil || isOurs(p.Host) {
		return p.Server.Addr()
	}
	if host := p.Now(); host != "" && host != p.Host {
		// If the listener cannot move, other nodes find this node silent. It tries again at its
		// next joining.
		if err := p.Server.Move(net.JoinHostPort(host, strconv.Itoa(p.Port))); err == nil {
			p.Host = host
		}
	}
	return p.Server.Addr()
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
