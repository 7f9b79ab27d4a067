package launch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

var (
	// ErrPorts means that there are fewer free ports than needed. [E-PORTS]
	ErrPorts = errors.New("no free port")
	// ErrAddress means that the host is not an address of this machine. [E-ADDRESS]
	ErrAddress = errors.New("not an address of this machine")
)

// firstPort is the start of the default range, above well-known services.
const firstPort = 10_000

// Ports finds n different ports in lo..hi that are free on host now. Without a range (0, 0) it
// avoids the kernel's ephemeral ports, which an outgoing connection may take before the worker
// does. Each call starts at another port, so that generations and agents of one machine rarely
// collide. Errors: ErrPorts, ErrAddress.
func Ports(n, lo, hi int, host string) ([]int, error) {
	candidates, err := candidatePorts(lo, hi)
	if err != nil {
		return nil, err
	}
	var ports []int
	start := rand.IntN(len(candidates))
	for i := range candidates {
		if len(ports) == n {
			break
		}
		port := candidates[(start+i)%len(candidates)]
		switch err := bind(host, port); {
		case err == nil:
			ports = append(ports, port)
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return nil, fmt.Errorf("%s: %w", host, ErrAddress)
		case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("find a free port: %w", err)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("%w: %d of %d found between %d and %d on %s",
			ErrPorts, len(ports), n, candidates[0], candidates[len(candidates)-1], host)
	}
	return ports, nil
}

func candidatePorts(lo, hi int) ([]int, error) {
	if lo != 0 || hi != 0 {
		if lo < 1 || hi > 65535 || lo > hi {
			return nil, fmt.Errorf("%w: %d-%d is no range of ports", ErrPorts, lo, hi)
		}
		return without(lo, hi, 0, 0), nil // the user chose them, even if they are ephemeral
	}
	var from, to int
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(data), &from, &to); err != nil {
			return nil, fmt.Errorf("read the range of ephemeral ports: %w", err)
		}
	}
	if ports := without(firstPort, 65535, from, to); len(ports) > 0 {
		return ports, nil
	}
	return without(firstPort, 65535, 0, 0), nil // all ports are ephemeral
}

// without returns lo..hi without from..to.
func without(lo, hi, from, to int) []int {
	var ports []int
	for p := lo; p <= hi; p++ {
		if p < from || p > to {
			ports = append(ports, p)
		}
	}
	return ports
}

// Free fails if another process listens on HOST:PORT, or if this machine does not have the address.
// Errors: ErrPorts, ErrAddress.
func Free(at string) error {
	l, err := net.Listen("tcp", at)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %w", at, ErrAddress)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %s is in use", ErrPorts, at)
	}
	return fmt.Errorf("listen at %s: %w", at, err)
}

// AwaitFree is Free, and waits while the address is in use, until ctx ends. The processes of an agent
// that was killed end a moment after it, and the next agent may start before that.
func AwaitFree(ctx context.Context, at string) error {
	const pause = 50 * time.Millisecond
	for {
		err := Free(at)
		if !errors.Is(err, ErrPorts) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// bind tries the port on host, and on all addresses, because frameworks listen on all.
func bind(host string, port int) error {
	for _, h := range []string{host, ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(h, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}
