package launch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/launch"
)

const loopback = "127.0.0.1"

func TestPortsAreFreeAndNotEphemeral(t *testing.T) {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var lo, hi int
	if _, err := fmt.Sscan(string(data), &lo, &hi); err != nil {
		t.Fatal(err)
	}
	ports, err := launch.Ports(9, 0, 0, loopback)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(ports); len(slices.Compact(ports)) != 9 {
		t.Errorf("ports %v, want 9 different ones", ports)
	}
	for _, p := range ports {
		if p < 1024 || p > 65535 || p >= lo && p <= hi {
			t.Errorf("port %d: ephemeral are %d-%d", p, lo, hi)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, p))
		if err != nil {
			t.Errorf("port %d is not free: %v", p, err)
			continue
		}
		l.Close()
	}
}

// An address that is in use for a moment longer is free, and one that stays in use is not.
func TestAwaitFree(t *testing.T) {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := launch.AwaitFree(ended, l.Addr().String()); !errors.Is(err, launch.ErrPorts) {
		t.Errorf("an address in use: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { l.Close() })
	if err := launch.AwaitFree(t.Context(), l.Addr().String()); err != nil {
		t.Errorf("an address that was in use: %v", err)
	}
}

// Of a range of three ports, one that is taken is never handed out: not on the
// address asked for, not on another one, for frameworks listen on all.
func TestTakenPortsArePassedOver(t *testing.T) {
	for _, taken := range []string{loopback, "127.0.0.2"} {
		lo, l := freeRange(t, taken)
		for range 20 { // the start is random
			ports, err := launch.Ports(2, lo, lo+2, loopback)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(ports, lo+1) {
				t.Fatalf("ports %v, %s has %d", ports, taken, lo+1)
			}
		}
		if _, err := launch.Ports(3, lo, lo+2, loopback); !errors.Is(err, launch.ErrPorts) {
			t.Errorf("three of two: %v, want ErrPorts", err)
		}
		l.Close()
	}
}

// freeRange finds three ports in a row, and listens on the middle one.
func freeRange(t *testing.T, host string) (int, net.Listener) {
	t.Helper()
	for range 50 {
		p, err := launch.Ports(1, 0, 0, loopback)
		if err != nil {
			t.Fatal(err)
		}
		lo := p[0]
		if _, err := launch.Ports(3, lo, lo+2, loopback); err != nil {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, lo+1)); err == nil {
			t.Cleanup(func() { l.Close() })
			return lo, l
		}
	}
	t.Fatal("no three free ports in a row")
	return 0, nil
}

func TestPortsAreFresh(t *testing.T) {
	seen := map[int]bool{}
	for range 8 {
		p, err := launch.Ports(1, 0, 0, loopback)
		if err != nil {
			t.Fatal(err)
		}
		seen[p[0]] = true
	}
	if len(seen) < 2 {
		t.Errorf("eight generations share the port of %v", seen)
	}
}

func TestNoPorts(t *testing.T) {
	for name, c := range map[string]struct {
		lo, hi int
		host   string
		want   error
	}{
		"upside down":               {2000, 1999, loopback, launch.ErrPorts},
		"beyond the last":           {65535, 65536, loopback, launch.ErrPorts},
		"half a range":              {2000, 0, loopback, launch.ErrPorts},
		"another machine's address": {0, 0, "192.0.2.1", launch.ErrAddress},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := launch.Ports(1, c.lo, c.hi, c.host); !errors.Is(err, c.want) {
				t.Errorf("got %v, %v; want %v", p, err, c.want)
			}
		})
	}
}
