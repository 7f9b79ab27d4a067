package node

import (
	"errors"
	"slices"

	"github.com/elasticd/elastic/internal/launch"
)

// ports are the ports that this node chose for its processes. In a job with servers, the ports also
// tell the other nodes whether a server stayed: a server that stayed keeps its port. A server that
// was started anew gets a different one, even if it listens at an address that the user gave.
type ports struct {
	last []int // of the processes that were started last
	kept []int // of servers that stay
}

// keepPorts records the ports of servers that stay. They become the last ports of the next
// generation. nil: no server stays.
func (w *workers) keepPorts(kept []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports.kept = kept
}

// usePorts records the ports of the processes that are being started.
func (w *workers) usePorts(used []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports.last = used
}

// Ports implements agent.Workers. If servers stay, the last ports are theirs.
func (w *workers) Ports(n int, host string) ([]int, error) {
	w.mu.Lock()
	before := w.ports
	w.mu.Unlock()
	if before.kept != nil && len(before.kept) < n {
		found, err := w.newPorts(n-len(before.kept), host)
		return slices.Concat(found, before.kept), err
	}
	found, err := w.newPorts(n, host)
	return swapUnchanged(found, before.last), err
}

// newPorts finds n free ports.
func (w *workers) newPorts(n int, host string) ([]int, error) {
	found, err := launch.Ports(n, w.o.PortsLo, w.o.PortsHi, host)
	if errors.Is(err, launch.ErrPorts) && w.o.PortsHi > 0 {
		return nil, refused{err, 125} // the range that the user gave is too small: waiting would not help
	}
	return found, err
}

// swapUnchanged swaps ports so that each port, counted from the end, differs from the one in before. The
// servers use the last ports. The first port may stay the same.
func swapUnchanged(found, before []int) []int {
	for k := 1; k < len(found) && k <= len(before); k++ {
		i := len(found) - k
		if last := before[len(before)-k]; last == found[i] {
			found[0], found[i] = found[i], found[0]
		}
	}
	return found
}
