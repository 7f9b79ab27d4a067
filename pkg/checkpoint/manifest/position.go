package manifest

import (
	"github.com/elasticd/elastic/pkg/schema"
)

// place orders the captures of a job.
type Position struct {
	Generation schema.Generation
	Sequence   uint64
	Part       bool // of a save: not ordered with whole ones
}

func (a Position) Before(b Position) bool {
	return a.Generation < b.Generation || a.Generation == b.Generation && a.Sequence < b.Sequence
}
