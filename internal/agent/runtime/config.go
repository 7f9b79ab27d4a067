// Package runtime runs one node's agent: it feeds what happens to a machine.Machine and carries out
// what that decides. Everything outside (the store, the workers, the network, the disk) is an
// interface of this package; each effect runs in a goroutine of its own and comes back as an event.
package runtime

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Config is what this node was told.
type Config struct {
	Job   rendezvous.Job  // as this agent would make it: Name, Limits, Slots, Base, Rules, Made
	Given map[string]bool // which settings of the job the user gave: "np", "nproc-per-node", …

	Again        bool   // a job that is done is removed, and made anew
	OtherProgram bool   // this node may run another program than the nodes that are here
	Node         string // name that is wanted
	NodeGiven    bool   // by --node: no other will do
	Place        int    // one more than the rank that this node was told to have; 0: any
	Machine      string // boot id

	LeaseTTL       time.Duration
	ConnectTimeout time.Duration // for the first contact; 0: none
	StoreCutLimit  time.Duration
	Settle         time.Duration // for nodes of a job that a new store may have lost; 0: none
	WaitTimeout    time.Duration // 0: none
	Hint           string        // how to bring more nodes, shown once while some are missing
	Times          plan.Timeouts
	Warm           bool // workers may start before a world has this node
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
	Say     func(action.Line) // what the user is told, in order
}

// Workers starts and stops the process groups of this node.
type Workers interface {
	// Open tells it its node's name, once, before everything else; it answers where logs go.
	Open(node string, job rendezvous.Job) (logs string, err error)
	// Succeed: the job was made again after its store was lost, and is the one from now on.
	Succeed(job rendezvous.Job) error
	// Sweep ends what an earlier agent of this node and job left behind; nil when nothing of it is
	// left.
	Sweep(ctx context.Context) error
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
	// and nothing that they write counts for it any more. held is the least step that the state of
	// one of them has come to; nil: one holds no state.
	Pause(ctx context.Context) (held *int64, err error)
	// Continue hands them the World of s. After an error they are good for nothing but Stop: one
	// has ended, or cannot stay any more.
	Continue(ctx context.Context, s action.Start) error
	// Hangs carries the failure that a hang of all workers of the world is taken for, if this node
	// is the one that looks for it, and is then closed.
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
	// Here is the address that others dial this agent at: of now, because a machine may get another
	// one.
	Here() string
	// Open lets it prove that it belongs to the job, and answer nodes that prove the same. Opened
	// again, for the job that succeeds it, with another secret, it forgets the one before.
	Open(secret []byte, job schema.Job, uid schema.UID)
	// Probe dials a node once, with a deadline of its own.
	Probe(ctx context.Context, to membership.Ref) membership.Answer
	// Confirm is Probe of a node that its watchers find silent: for no longer than an answer takes.
	Confirm(ctx context.Context, to membership.Ref) membership.Answer
	// Holds asks a watcher whether it still suspects about.
	Holds(ctx context.Context, watcher, about membership.Ref) bool
	// Reach asks by to dial address, which is this agent's, and returns what that brought. An
	// error: by did not answer.
	Reach(ctx context.Context, by membership.Ref, address string) (membership.AnswerKind, error)
	// Watch sets the nodes whose heartbeats are watched; Signals reports the results.
	Watch(refs []membership.Ref)
	Signals() <-chan event.Signal
	// Tell sets what this agent tells nodes that dial it. Its heartbeats say that the owner of the
	// state is alive: they stop when Tell is not called for a while.
	Tell(h action.Hello)
}

// Disk is what this node keeps.
type Disk interface {
	// Lock takes the lock of node and job; refusal.ErrLocked while another agent of this host has
	// it.
	Lock(node string) (unlock func(), err error)
	// HostID is random, kept in the state directory: same id, same locks.
	HostID() string
	// Seen and SetSeen are the highest generation that the node ever saw, fsynced.
	Seen(node string) (schema.Generation, error)
	SetSeen(node string, g schema.Generation) error
	// Remember keeps what node would claim if the store lost the job, durably; nil: nothing any
	// more.
	Remember(node string, c *rendezvous.Claim) error
	// Recall is what it remembers: nil where it never was in the job.
	Recall(node string) (*rendezvous.Claim, error)
	// Others are what the other nodes of this host remember of the job on this server.
	Others(node string) []rendezvous.Claim
	// Salvage is the checkpoints that are on its disk (checkpoint.Shelf.Salvage).
	Salvage(ctx context.Context, node string, g schema.Generation) (checkpoint.Salvaged, error)
}

// Saves captures, commits and fetches checkpoints.
type Saves interface {
	// Nodes are those that are registered, as far as this agent follows them, and the newest
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
	// CommitLeft commits what rank 0 of w, which is gone, left on this disk and could not commit;
	// self is this node.
	CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error
	// HandOver makes sure, if it can, that another node has the newest commit.
	HandOver(ctx context.Context)
}
