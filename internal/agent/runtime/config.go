// Package runtime runs one node's agent: it feeds what happens to a machine.Machine and carries out
// what that decides. Everything outside (the store, the workers, the network, the disk) is an
// interface of this package; each effect runs in a goroutine of its own and comes back as an event.
package runtime

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Config is what this node was given: about joining its job, and what follows.
type Config struct {
	joining.Config
	WaitTimeout time.Duration // 0: none
	Hint        string        // how to bring more nodes, shown once while some are missing
	Times       plan.Timeouts
}

// machine is the part of the settings that decisions rest on.
func (c *Config) machine() machine.Config {
	return machine.Config{LeaseTTL: c.LeaseTTL, StoreCutLimit: c.StoreCutLimit, WaitTimeout: c.WaitTimeout,
		Hint: c.Hint, Times: c.Times, Warm: c.Warm}
}

// Deps is everything outside.
type Deps struct {
	Store   store.Store
	Workers Workers
	Peers   Peers
	Disk    Disk
	Saves   Saves
	Say     func(action.Line) // messages to the user, in order
}

// Workers starts and stops the process groups of this node.
type Workers interface {
	joining.Workers
	// Start starts one worker for each slot. Events come as they happen, until done is closed
	// because nothing of the group is left.
	Start(ctx context.Context, s action.Start) (Group, error)
	// Ports finds free ports on host, which is this one's, for the workers of one generation: two
	// for the master and one for each slot, outside the range that the kernel hands out.
	Ports(n int, host string) ([]int, error)
}

// Group is the worker processes of this node: of one generation, or of several in turn where they
// stay.
type Group interface {
	// Events carries one Exited for each worker, and a Staying whenever what they can do changes.
	// It is closed after the last Exited. Each event names the generation that they had when it
	// happened.
	Events() <-chan event.Event
	// Generation is the one that they were started for, or were handed last.
	Generation() schema.Generation
	// Pause has them leave their generation, and returns when none takes part in a collective of it
	// and nothing that they write counts for it any more. held is the least step among the states
	// that they hold; nil: one of them holds none.
	Pause(ctx context.Context) (held *int64, err error)
	// Continue hands them the World of s. After an error they are good for nothing but Stop: one
	// has ended, or cannot stay any more.
	Continue(ctx context.Context, s action.Start) error
	// Hangs carries the failure that stands for a hang of all workers of the world, if this node is
	// the one that looks for hangs, and is then closed.
	Hangs() <-chan rendezvous.Failure
	// Ask asks the workers to save and end: drain file, then SIGTERM.
	Ask(reason string, grace time.Duration) error
	// Stop ends them: SIGTERM unless they were asked, grace, SIGKILL; at once when the last worker
	// has ended. nil only when nothing of the group is left, which is what Ready rests on.
	Stop(ctx context.Context, grace time.Duration) error
	Done() <-chan struct{}
}

// Peers is the other agents.
type Peers interface {
	joining.Peers
	// Confirm is Probe of a node that its watchers find silent: for no longer than an answer takes.
	Confirm(ctx context.Context, to membership.Ref) membership.Answer
	// Holds asks a watcher whether it still suspects about.
	Holds(ctx context.Context, watcher, about membership.Ref) bool
	// Watch sets the nodes whose heartbeats are watched; Signals reports the results.
	Watch(refs []membership.Ref)
	Signals() <-chan event.Signal
	// Tell sets what this agent tells nodes that dial it. Its heartbeats say that the owner of the
	// state is alive: they stop when Tell is not called for a while.
	Tell(h action.Hello)
}

// Disk is what this node keeps.
type Disk interface {
	joining.Disk
	// SetSeen keeps the highest generation that the node ever saw, fsynced.
	SetSeen(node string, g schema.Generation) error
}

// Saves captures, commits and fetches checkpoints.
type Saves interface {
	joining.Saves
	// Nodes are those that were registered when this agent read all of them last, and the newest
	// commit.
	Nodes(nodes []membership.Node, head checkpoint.Head)
	// Open begins to capture what the workers of w write. rank is that of this node.
	Open(w rendezvous.World, rank int)
	// Close ends the captures of every generation up to g. It returns when nothing is under way.
	Close(ctx context.Context, g schema.Generation) error
	// Finish is Close, but first takes, replicates and commits what the workers left complete.
	// A Close meanwhile cuts that short.
	Finish(ctx context.Context, g schema.Generation) error
	// Prepare has the resume checkpoint of w on this disk, verified.
	Prepare(ctx context.Context, w rendezvous.World) (event.Resume, error)
	// Stay readies the checkpoint directory for workers that hold the state, in place of Prepare.
	Stay(w rendezvous.World) error
	// Behind says that the store shows an older commit than this node knows.
	Behind() <-chan struct{}
	// HandOver makes sure, if it can, that another node has the newest commit.
	HandOver(ctx context.Context)
}
