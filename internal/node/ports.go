package node

import (
	"errors"
	"slices"

	"github.com/elasticd/elastic/internal/launch"
)

// ports are those that this node finds for its processes. In a job with servers the other nodes see
// by them whether a server stayed: then it has its port of before, else another one, even where it
// listens at an address that the user gave.
type ports struct {
	last []int // of the processes that were started last
	kept []int // of servers that stay
}

// keepPorts notes the ports of servers that stay: they are the last ports of the next generation.
// nil: none stays.
func (w *workers) keepPorts(kept []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports.kept = kept
}

// usePorts notes the ports of processes that are started.
func (w *workers) usePorts(used []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports.last = used
}

func (w *workers) Ports(n int, host string) ([]int, error) {
	w.mu.Lock()
	before := w.ports
	w.mu.Unlock()
	if before.kept != nil && len(before.kept) < n {
		found, err := w.newPorts(n-len(before.kept), host)
		return slices.Concat(found, before.kept), err
	}
	found, err := w.newPorts(n, host)
	return unlike(found, before.last), err
}

func (w *workers) newPorts(n int, host string) ([]int, error) {
	found, err := launch.Ports(n, w.o.PortsLo, w.o.PortsHi, host)
	if errors.Is(err, launch.ErrPorts) && w.o.PortsHi > 0 {
		return nil, refused{err, 125} // those that were given do not suffice: others cannot come free
	}
	return found, err
}

// unlike reorders ports so that none but the first is at the place, counted from the end, that it
// had in before: servers have the last ones.
func unlike(found, before []int) []int {
	for k := 1; k < len(found) && k <= len(before); k++ {
		i := len(found) - k
		if last := before[len(before)-k]; last == found[i] {
			found[0], found[i] = found[i], found[0]
		}
	}
	return found
}
