package runtime

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/membership"
)

// placeTaken is why this node cannot have the rank that it was told: another one has it. That one
// may be this node's earlier life under another name, and goes with its lease.
func (l *loop) placeTaken(nodes []membership.Node) error {
	for _, n := range nodes {
		if l.Place > 0 && n.Place == l.Place && n.Node != l.joining.node && n.Node != l.Node {
			return fmt.Errorf("node %s has rank %d", n.Node, l.Place-1)
		}
	}
	return nil
}
