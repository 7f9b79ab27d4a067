package cli

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/node"
)

// address settles the address that other nodes dial: with the local server 127.0.0.1, since nobody
// else can join; else what was given. It stays open if only the way to the server can tell.
func (c *call) address(o *node.Options) error {
	host := c.setting("host")
	isLocal := !c.remote()
	if len(o.Job.Hosts) > 0 {
		return nil // it is one of --ips
	}
	if host.given && (!isLocal || host.origin == "--host") {
		ip, err := ours(host.text)
		if err != nil {
			return fail(Address, "%s: %v", host, err).of(err).
				because("--host is what this node tells the others to dial").
				cure("--host=ADDRESS of this machine that other nodes reach")
		}
		o.Host = ip
	}
	if isLocal {
		o.Host = "127.0.0.1"
	}
	return nil
}

// towards is the address of the interface that reaches the server, "" if none does.
func towards(endpoints []string) string {
	for _, e := range endpoints {
		if _, rest, ok := strings.Cut(e, "://"); ok {
			e = strings.TrimSuffix(rest, "/")
		}
		conn, err := net.DialTimeout("udp", e, time.Second) // sends nothing
		if err != nil {
			continue // a socket, or no route
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		conn.Close()
		if err == nil {
			return host
		}
	}
	return ""
}

var (
	errNotOurs = errors.New("no address of this machine")
	errEvery   = errors.New("it stands for every address of this machine, and nobody can dial it")
)

// ours resolves host and shows that it can be listened on.
func ours(host string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip); err == nil && a.Unmap().IsUnspecified() {
			return "", errEvery
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err == nil {
			l.Close()
			return ip, nil
		}
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return "", err
		}
	}
	return "", errNotOurs
}
