package manifest

import (
	"github.com/elasticd/elastic/pkg/schema"
)

// Position orders the captures of a job. A part is ordered only among the parts of its node.
type Position struct {
	Generation schema.Generation
	Sequence   uint64
	Part       bool   // see Manifest
	Of         string // the node that captured the part
}

// Position returns the position of the checkpoint among the captures of its job.
func (m *Manifest) Position() Position {
	return Position{Generation: m.Generation, Sequence: m.Sequence, Part: m.Part, Of: m.Of}
}

// Before compares generation and sequence.
func (a Position) Before(b Position) bool {
	return a.Generation < b.Generation || a.Generation == b.Generation && a.Sequence < b.Sequence
}
