package action

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Start is what the workers of a generation are given.
type Start struct {
	World     rendezvous.World
	Rank      int // of this node
	Node      string
	Ports     []int
	Endpoints []string
	Resume    event.Resume
	// Unprepared: Ready was reported for workers that hold the state, so the checkpoint may not be
	// on this disk.
	Unprepared bool
	// Waits: the workers begin in no generation. They wait for the World that is handed to them,
	// and World is one that they might be in.
	Waits bool
}

// Hello is what this agent answers to its peers.
type Hello struct {
	UID         schema.UID
	Node        string
	Incarnation membership.Incarnation
	Generation  schema.Generation
	Failed      bool
	Ended       bool
	Stays       bool             // the workers here can stay in their processes
	Suspects    []membership.Ref // that it suspects now
}

// Line is one message to the user on stderr.
type Line struct {
	Text  string
	Raw   bool // printed without the "elastic: " in front
	Early bool // of what it waits for until it is in the job: not yet the first line of its own
	Error bool
}

// Halt is how far the end of a group of workers was driven. It only rises.
type Halt int

const (
	NoHalt     Halt = iota
	HaltPaused      // asked to leave its generation, and to stay for the next one
	HaltAsked       // asked to save and end
	HaltEnded       // SIGTERM, and SIGKILL after ShortGrace
	HaltKilled      // SIGKILL
)

// PauseLimit is how long workers that can stay may take to leave a generation. After it they are
// ended.
const PauseLimit = 10 * time.Second

// ShortGrace is what workers get between SIGTERM and SIGKILL when nothing is to be saved.
const ShortGrace = 250 * time.Millisecond

// Patience is how long a node that goes waits for a store that does not answer.
const Patience = 2 * time.Second
