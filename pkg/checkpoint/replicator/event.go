package replicator

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Event is what a Replicator and its pipelines report: Committed, Refused, Moving, Closed, Sharded,
// LoadsAll, Damaged, Late or Behind.
type Event interface{ event() }

// Committed reports that a checkpoint is the head, as read back from the store.
type Committed struct {
	Head  manifest.Head
	Took  time.Duration // since the save was found
	Entry string
}

// Refused reports that a save will not be committed.
type Refused struct {
	Generation schema.Generation
	capture.Refusal
}

// Moving reports the progress of a "replicate" or a "fetch".
type Moving struct {
	What        string
	Done, Total int64
}

// Closed is the last event of a pipeline. All its captures were committed or refused, unless Err is
// set.
type Closed struct {
	Generation schema.Generation
	Err        error
	Left       *manifest.Manifest // captured, but neither committed nor refused: CommitLeft may commit it
}

// Behind reports that the store shows an older head than this node knows.
type Behind struct{}

// Sharded reports that the saves of a generation have a shard format, and that each node captures
// its part.
type Sharded struct {
	Generation schema.Generation
	Format     string
}

func (e Sharded) String() string {
	return fmt.Sprintf("saves are shards of %s: each node saves its part (--save-from=all); if rank "+
		"0 writes all of a save, run with --save-from=rank0", e.Format)
}

// LoadsAll reports that this node restores all of a checkpoint, and not only the parts of its
// ranks.
type LoadsAll struct{ Why string }

func (e LoadsAll) String() string {
	return fmt.Sprintf("--load=own: this node loads all of the checkpoint: %s", e.Why)
}

// Damaged reports that a committed checkpoint on this disk was damaged. It was fetched again,
// unless Err is set.
type Damaged struct {
	Head  manifest.Head
	Where string // the file and byte, or the manifest; "": earlier damage is repaired now
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
