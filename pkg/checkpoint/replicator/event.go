package replicator

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Event is what a Replicator and its pipelines report: Committed, Refused, Moving, Closed, Sharded,
// LoadsAll, Damaged or Behind.
type Event interface{ event() }

// Committed says that a checkpoint is saved: it was read back as the head.
type Committed struct {
	Head  manifest.Head
	Took  time.Duration // since the save was seen
	Entry string
}

// Refused says that a save was not taken, and never will be.
type Refused struct {
	Generation schema.Generation
	capture.Refusal
}

// Moving says how far bytes are: "replicate", "fetch".
type Moving struct {
	What        string
	Done, Total int64
}

// Closed is the last event of a pipeline: everything it captured was committed, or refused for
// good, unless Err says what stopped it.
type Closed struct {
	Generation schema.Generation
	Err        error
	Left       *manifest.Manifest // captured, neither committed nor refused: CommitLeft may still commit it
}

// Behind says that the store shows an older head than this node knows.
type Behind struct{}

// Sharded says that the saves of a generation were found to be of a shard format: each node
// captures its part.
type Sharded struct {
	Generation schema.Generation
	Format     string
}

func (e Sharded) String() string {
	return fmt.Sprintf("saves are shards of %s: each node saves its part (--save-from=all); if rank "+
		"0 writes all of a save, run with --save-from=rank0", e.Format)
}

// LoadsAll says that this node has all of a checkpoint put back, and not the parts of its ranks alone.
type LoadsAll struct{ Why string }

func (e LoadsAll) String() string {
	return fmt.Sprintf("--load=own: this node loads all of the checkpoint: %s", e.Why)
}

// Damaged says that a committed checkpoint went bad on this disk, and was fetched again unless Err
// says why not.
type Damaged struct {
	Head  manifest.Head
	Where string // the file and the byte, or its manifest; "": what was reported before is mended now
	Err   error
}

func (Damaged) event()   {}
func (LoadsAll) event()  {}
func (Sharded) event()   {}
func (Behind) event()    {}
func (Committed) event() {}
func (Refused) event()   {}
func (Moving) event()    {}
func (Closed) event()    {}
