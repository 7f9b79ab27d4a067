package machine

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Config is what a Machine must know of its node's settings.
type Config struct {
	LeaseTTL      time.Duration
	StoreCutLimit time.Duration
	WaitTimeout   time.Duration // 0: none
	Hint          string        // how to bring more nodes, shown once while some are missing
	Times         plan.Timeouts
}

// Start is what a generation's workers are told.
type Start struct {
	World     rendezvous.World
	Rank      int // of this node
	Node      string
	Ports     []int
	Endpoints []string
	Resume    Resume
	// Unprepared: Ready was reported for workers that hold the state, so the checkpoint may not be
	// on this disk.
	Unprepared bool
}

// Resume is the checkpoint as it lies on this node's disk.
type Resume struct {
	From    string // "" : none
	Step    *int64
	Samples *int64
}

// WorkerExit is the end of one worker.
type WorkerExit struct {
	LocalRank int
	Code      int    // 128+N for a signal
	Signal    string // "SIGKILL", or ""
	Ours      bool   // it was asked or signalled by us: never a failure
	Message   string // why, in one line
	Detail    string // the traceback, or the end of its output
	Step      *int64 // the last that it told; nil: none
	NaN       bool   // the last loss that it told is not a number, and the job does not ignore that
	Victim    bool   // its connection to another worker broke: another failure is the cause
	Hang      bool   // it made no progress, and was ended for that
}

// Hello is what this agent answers to its peers.
type Hello struct {
	UID         schema.UID
	Node        string
	Incarnation membership.Incarnation
	Generation  schema.Generation
	Failed      bool
	Ended       bool
	Suspects    []membership.Ref // that it suspects now
}

// Signal is what the watch over other nodes saw.
type Signal struct {
	About      membership.Ref
	Sign       membership.Sign // "" : it answers again
	Answer     membership.Answer
	Silent     time.Duration
	Never      bool              // it never answered
	Generation schema.Generation // the largest that any peer told of
}

// Line is one thing that the user is told on stderr.
type Line struct {
	Text  string
	Raw   bool // printed without the "elastic: " in front
	Early bool // of what it waits for until it is in the job: not yet the first line of its own
	Error bool
}

// MaxWitnesses is how many nodes are asked at most whether they reach another one.
const MaxWitnesses = 3

// OutOfReach says that node by cannot reach this node at its address, and what to do.
func OutOfReach(by, address string) string {
	return fmt.Sprintf("this node cannot be reached at %s by %s: --host=ADDRESS of this machine that other nodes reach, or open the port (--port=P fixes it)", address, by)
}

// Leaving is why this node goes.
type Leaving struct {
	Reason membership.Reason
	Status int
	Now    bool  // a second signal: nothing is waited for
	Err    error // what this node cannot do

	since time.Time // when it was asked to; zero: it was registered then
}

// Result is how the agent ended.
type Result struct {
	Status int
	Err    error
}

// Halt is how far the end of a group of workers was driven. It only rises.
type Halt int

const (
	NoHalt     Halt = iota
	HaltPaused      // told to leave its generation, and to stay for the next one
	HaltAsked       // asked to save and end
	HaltEnded       // SIGTERM, and SIGKILL after ShortGrace
	HaltKilled      // SIGKILL
)

// PauseLimit is how long workers that can stay may take to leave a generation. After it they are
// ended.
const PauseLimit = 10 * time.Second

// ShortGrace is what workers get between SIGTERM and SIGKILL when nothing is to be saved.
const ShortGrace = 250 * time.Millisecond
