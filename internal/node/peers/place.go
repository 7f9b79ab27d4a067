package peers

import (
	"net"
	"strconv"
	"sync"

	"github.com/elasticd/elastic/internal/peer"
)

// Place is where this node listens, and is dialled by others.
type Place struct {
	Server *peer.Server
	Port   int
	Now    func() string // the address to be at, "" if that cannot be said; nil: host was given

	mu   sync.Mutex // guards host: any goroutine may ask
	Host string
}

// Here is the listener's address. A machine that got another one (a network that was left and
// joined again, a new DHCP lease) has its listener there from now on.
func (p *Place) Here() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Now == nil || isOurs(p.Host) {
		return p.Server.Addr()
	}
	if host := p.Now(); host != "" && host != p.Host {
		// Where it cannot listen others cannot dial it: they find it silent, and it asks again when
		// it joins again.
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
