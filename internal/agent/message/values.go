package message

import (
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Resume is the checkpoint on this node's disk.
type Resume struct {
	From    string // "" : none
	Step    *int64
	Samples *int64
}

// WorkerExit is the end of one worker.
type WorkerExit struct {
	LocalRank int
	Process   rendezvous.Process // a process that is no trainer; zero: the trainer with that local rank
	Code      int                // 128+N for a signal
	Signal    string             // "SIGKILL", or ""
	Ours      bool               // this agent asked or signalled it, so it did not fail
	Message   string             // why, in one line
	Detail    string             // the traceback, or the end of its output
	Step      *int64             // the last that it reported; nil: none
	// the last loss that it reported is not a number, and the job does not ignore that
	NaN    bool
	Script bool // its script fails the same way each time
	Victim bool // its connection to another worker broke: another failure is the cause
}

// StatusOfAsked reports whether the exit code is that of a worker that ended because of a SIGTERM,
// to itself or to another rank.
func StatusOfAsked(code int) bool { return code == 143 || code == 101 || code == 102 }

// Leaving is why this node leaves.
type Leaving struct {
	Reason membership.Reason
	Status int
	Now    bool  // a second signal: leave without waiting for anything
	Err    error // what this node cannot do
}

// Result is how the agent ended.
type Result struct {
	Status int
	Err    error
}
