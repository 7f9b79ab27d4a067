package target

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// towards returns the address of the interface that reaches the server, "" if none does.
func towards(endpoints []string) string {
	for _, e := range endpoints {
		if _, rest, ok := strings.Cut(e, "://"); ok {
			e = strings.TrimSuffix(rest, "/")
		}
		conn, err := net.DialTimeout("udp", e, time.Second) // sends nothing
		if err != nil {
			continue // the endpoint is a socket, or there is no route
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
	errEvery   = errors.New("it stands for every address of this machine, and no node can dial it")
)

// Ours resolves host, and fails if this machine cannot listen on it.
func Ours(host string) (string, error) {
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
