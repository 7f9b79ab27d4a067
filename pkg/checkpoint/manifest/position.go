package manifest

import (
	"github.com/elasticd/elastic/pkg/schema"
)

// Position orders the captures of a job. Parts are ordered among those of their node, and not with
// whole ones.
type Position struct {
	Generation schema.Generation
	Sequence   uint64
	Part       bool   // of a save
	Of         string // the node that captured the part
}

// Position is where the checkpoint stands among the captures of its job.
func (m *Manifest) Position() Position {
	return Position{Generation: m.Generation, Sequence: m.Sequence, Part: m.Part, Of: m.Of}
}

// Before compares generation and sequence.
func (a Position) Before(b Position) bool {
	return a.Generation < b.Generation || a.Generation == b.Generation && a.Sequence < b.Sequence
}
