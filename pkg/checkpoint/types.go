package checkpoint

import (
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// These are the types of the packages below that every user of checkpoints needs.
type (
	Number   = manifest.Number
	Hash     = manifest.Hash
	Head     = manifest.Head
	HeldPart = manifest.HeldPart
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

// SaveFrom says whose workers write a save; "": all, where a shard format is seen.
type SaveFrom string

const (
	SaveFromRank0 SaveFrom = "rank0"
	SaveFromAll   SaveFrom = "all"
)

// Load says which nodes put a checkpoint back before workers start; "": LoadAll.
type Load string

const (
	LoadAll   Load = "all"   // every node, all of it
	LoadRank0 Load = "rank0" // rank 0's node, all of it
	LoadOwn   Load = "own"   // every node, what its ranks read
)
