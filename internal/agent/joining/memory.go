package joining

import (
	"sync"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Memory writes down what a node knows of its job, for an agent that starts later. The zero value has
// written nothing yet.
type Memory struct {
	mu   sync.Mutex
	last rendezvous.Memory
}

// Keep writes m with write, but never an older generation of a job over a newer one.
func (k *Memory) Keep(
	node string, m rendezvous.Memory, write func(node string, m *rendezvous.Memory) error,
) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.Job.UID == k.last.Job.UID && m.Generation < k.last.Generation {
		return nil
	}
	if err := write(node, &m); err != nil {
		return err
	}
	k.last = m
	return nil
}
