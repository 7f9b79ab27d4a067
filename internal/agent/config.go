// Package agent runs one node's agent. It passes events to a machine.Machine and carries out the
// actions that the machine returns. Everything outside (the store, the workers, the network, the
// disk) is an interface of this package. Each effect runs in its own goroutine, and its outcome
// comes back as an event.
package agent

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Config has the settings of this node, for joining and for the machine.
type Config struct {
	joining.Config
	WaitTimeout time.Duration // 0: none
	Hint        string        // how to bring more nodes, shown once while some are missing
	Times       plan.Timeouts
}

// machine returns the settings that the machine needs.
func (c *Config) machine() machine.Config {
	return machine.Config{LeaseTTL: c.LeaseTTL, WaitTimeout: c.WaitTimeout, Hint: c.Hint,
		Times: c.Times, Warm: c.Warm}
}

// Deps are the interfaces to everything outside.
type Deps struct {
	Store   store.Store
	Workers Workers
	Peers   Peers
	Disk    Disk
	Saves   Saves
	Say     func(message.Line) // messages to the user, in order
	Pace    Pace
}

// Pace is how a simulation holds an agent. The zero Pace does not.
type Pace struct {
	Gate  func()        // is called before events are handled: it may wait, or end the goroutine
	Phase time.Duration // by how much the ticks of this agent are later than those of others
}

// Workers starts and stops the process groups of this node.
type Workers interface {
	joining.Workers
	// Start starts one worker for each slot.
	Start(ctx context.Context, s message.Start) (Group, error)
	// Ports finds free ports on host, which is this machine, for the workers of one generation: two
	// for the master and one for each slot, outside the range that the kernel uses itself.
	Ports(n int, host string) ([]int, error)
}

// Group is the worker processes of this node. They belong to one generation, or to several in turn
// if they stay.
type Group interface {
	// Events has one Exited for each worker, and a Staying whenever it changes whether they can
	// stay. It is closed after the last Exited. Each event has the generation of the workers at
	// that time.
	Events() <-chan message.Event
	// Generation is the one for which they were started or continued last.
	Generation() schema.Generation
	// Pause makes them leave their generation. It returns when none takes part in a collective of
	// it, and nothing that they write counts for it any more. held is the lowest step among their
	// states; nil: one of them has none.
	Pause(ctx context.Context) (held *int64, err error)
	// Continue gives them the World of s. After an error they can only be stopped: one has ended,
	// or cannot stay any more.
	Continue(ctx context.Context, s message.Start) error
	// Hangs delivers the failure that stands for a hang of all workers of the World, on the node
	// that detects hangs. It is then closed.
	Hangs() <-chan rendezvous.Failure
	// Ask asks the workers to save and end: drain file, then SIGTERM.
	Ask(reason string, grace time.Duration) error
	// Stop ends them: SIGTERM unless they were asked, then grace, then SIGKILL. It ends them at
	// once when the last worker has ended. It returns nil only when no process of the group is
	// left, on which Ready depends.
	Stop(ctx context.Context, grace time.Duration) error
	// Done is closed when no process of the group is left.
	Done() <-chan struct{}
}

// Peers is the other agents.
type Peers interface {
	joining.Peers
	// Confirm is Probe of a node that its watchers find silent, with the time that an answer takes
	// as its limit.
	Confirm(ctx context.Context, to membership.Ref) membership.Answer
	// Holds asks a watcher whether it still suspects about.
	Holds(ctx context.Context, watcher, about membership.Ref) bool
	// Watch sets the nodes to watch.
	Watch(refs []membership.Ref)
	// Signals delivers what the watch of nodes finds.
	Signals() <-chan membership.Signal
	// Tell sets the answer to nodes that dial this agent. Heartbeats prove that the agent's loop is
	// alive: they stop if Tell is not called for a while.
	Tell(h message.Hello)
}

// Disk is the data of this node.
type Disk interface {
	joining.Disk
	// SetLastGeneration durably writes g, unless a higher generation was written before.
	SetLastGeneration(node string, g schema.Generation) error
}

// Saves captures, commits and fetches checkpoints.
type Saves interface {
	joining.Saves
	// Nodes sets the nodes that were registered at the last read of all of them, and the newest
	// commit.
	Nodes(nodes []membership.Node, head checkpoint.Head)
	// Open starts to capture what the workers of w write. rank is the node rank.
	Open(w rendezvous.World, rank int)
	// Close ends the captures of every generation up to g. It returns when none is under way.
	Close(ctx context.Context, g schema.Generation) error
	// Finish is Close, but first captures, replicates and commits what the workers left complete. A
	// concurrent Close ends that early.
	Finish(ctx context.Context, g schema.Generation) error
	// Prepare brings the resume checkpoint of w to this disk, verified.
	Prepare(ctx context.Context, w rendezvous.World) (message.Resume, error)
	// Fits proves that this node, which is no member of w, could prepare the newest checkpoint.
	Fits(ctx context.Context, w rendezvous.World) error
	// Stay prepares the checkpoint directory for workers that hold the state, instead of Prepare.
	Stay(w rendezvous.World) error
	// NotReady reports to the other nodes why this node is not ready, until Ready is called.
	NotReady(err error)
	// Ready ends the report of NotReady.
	Ready()
	// Behind is signalled when the store shows an older commit than this node knows.
	Behind() <-chan struct{}
	// Gone has the reason when this node can keep no checkpoints any more, and others have the newest.
	Gone() <-chan error
	// HandOver makes sure, if it can, that another node has the newest commit.
	HandOver(ctx context.Context)
}
