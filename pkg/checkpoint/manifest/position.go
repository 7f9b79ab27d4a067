package manifest

import (
	"github.com/elasticd/elastic/pkg/schema"
)

// Position orders the captures of a job.
type Position struct {
	Generation schema.Generation
	Sequence   uint64
	Part       bool // of a save: not ordered with whole ones
}

// Position is where the checkpoint stands among the captures of its job.
func (m *Manifest) Position() Position {
	return Position{Generation: m.Generation, Sequence: m.Sequence, Part: m.Part}
}

func (a Position) Before(b Position) bool {
	return a.Generation < b.Generation || a.Generation == b.Generation && a.Sequence < b.Sequence
}
