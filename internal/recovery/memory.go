package recovery

import (
	"sync"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Memory writes down what a node would claim if it died together with the store. The zero value has
// written nothing yet.
type Memory struct {
	mu    sync.Mutex
	uid   schema.UID
	world schema.Generation
}

// Keep writes c with write, but never an older World over a newer one.
func (m *Memory) Keep(c rendezvous.Claim, write func(node string, c *rendezvous.Claim) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Job.UID == m.uid && c.World < m.world {
		return nil
	}
	if err := write(c.Node, &c); err != nil {
		return err
	}
	m.uid, m.world = c.Job.UID, c.World
	return nil
}
