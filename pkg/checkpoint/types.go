package checkpoint

import (
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// These types of the packages below are part of the API of this package.
type (
	Number   = manifest.Number
	Hash     = manifest.Hash
	Head     = manifest.Head
	HeldPart = manifest.HeldPart
	Copy     = manifest.Copy
	Manifest = manifest.Manifest
	Cursor   = manifest.Cursor
	Stamp    = manifest.Stamp
)

var (
	ErrFenced  = chunkstore.ErrFenced
	ErrNotHeld = chunkstore.ErrNotHeld
	ErrDamaged = chunkstore.ErrDamaged
	ErrNoSpace = dirfs.ErrNoSpace
)

// MaxNumber is the largest number of a checkpoint.
const MaxNumber = manifest.MaxNumber

// SaveFrom says which workers write a save; "": all of them if the save has a shard format.
type SaveFrom string

const (
	SaveFromRank0 SaveFrom = "rank0"
	SaveFromAll   SaveFrom = "all"
)

// Load says which nodes restore a checkpoint before workers start; "": LoadAll.
type Load string

const (
	LoadAll   Load = "all"   // each node, the whole checkpoint
	LoadRank0 Load = "rank0" // only rank 0's node, the whole checkpoint
	LoadOwn   Load = "own"   // each node, the parts that its ranks load
)
