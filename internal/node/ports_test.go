package node

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
)

// The ports of servers that stay become the last ports of the next generation. A server that is
// started anew gets another port than the old one at its index, even if few ports are free.
func TestPortsOfNewServers(t *testing.T) {
	const n = 5
	w := &workers{}
	w.o.PortsLo = fewPorts(t, n)
	w.o.PortsHi = w.o.PortsLo + n - 1
	find := func() []int {
		found, err := w.Ports(n, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for range 100 {
		was := find()
		w.usePorts(was)
		w.keepPorts(was[3:])
		w.o.PortsHi += n // the kept ones are in use
		if now := find(); !slices.Equal(now[3:], was[3:]) {
			t.Fatalf("%v after %v, and the last two stay", now, was)
		}
		w.o.PortsHi -= n
		w.keepPorts(nil)
		now := find()
		for i := 1; i < n; i++ {
			if now[i] == was[i] {
				t.Fatalf("%v after %v", now, was)
			}
		}
	}
}

// fewPorts is the first of n free ports in a row.
func fewPorts(t *testing.T, n int) int {
	t.Helper()
next:
	for first := 20_000; first < 30_000; first += n {
		for port := first; port < first+n; port++ {
			l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return first
	}
	t.Fatal("no free ports in a row")
	return 0
}

// New servers do not replace servers that should have stayed, because the servers of other nodes
// may have stayed, with newer tables.
func TestNewServersInPlaceOfSomeThatWereToStay(t *testing.T) {
	w := &workers{}
	w.job.Store(&rendezvous.Job{Roles: &roles.Spec{Mode: roles.PS, Servers: []string{""}}})
	if _, err := w.Start(t.Context(), message.Start{Unprepared: true}); !errors.Is(err, errServersEnded) {
		t.Errorf("started: %v", err)
	}
}
