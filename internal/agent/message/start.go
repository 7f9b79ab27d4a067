package message

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Start is what the workers of a generation get.
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
	// Waits: the workers begin in no generation. They wait for their first World, and World is only
	// similar to it.
	Waits bool
}

// Hello is what this agent answers to its peers.
type Hello struct {
	Node        string
	Incarnation membership.Incarnation
	Generation  schema.Generation
	Failed      bool
	Ended       bool
	Stays       bool             // the workers here can stay in their processes
	Suspects    []membership.Ref // nodes that this agent suspects now
	Knows       plan.Knowledge
}

// Line is one message to the user on stderr.
type Line struct {
	Text  string
	Raw   bool // printed without the "elastic: " in front
	Early bool // about a wait before the node is in the job; the first line about the job itself comes later
}

// Halt is how far a group of workers was driven to its end. It only rises.
type Halt int

const (
	NoHalt     Halt = iota
	HaltPaused      // asked to leave its generation, and to stay for the next one
	HaltAsked       // asked to save and end
	HaltEnded       // SIGTERM, and SIGKILL after ShortGrace
	HaltKilled      // SIGKILL
)

// PauseLimit is how long workers may take to leave a generation before they are ended.
const PauseLimit = 10 * time.Second

// ShortGrace is the time between SIGTERM and SIGKILL for workers that have nothing to save.
const ShortGrace = 250 * time.Millisecond

// Patience is how long a leaving node waits for a store that does not answer.
const Patience = 2 * time.Second
