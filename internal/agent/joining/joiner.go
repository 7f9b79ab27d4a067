// Package joining makes a node join its job: it takes a name, makes the job if there is none, refuses a
// server that has less of the job than this node, and registers. docs/PROTOCOL.md, section 10, has the
// rules for a lost job.
package joining

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Config has the settings of this node about its job and its place in it.
type Config struct {
	Job   rendezvous.Job  // as this agent would make the job: Name, Limits, Slots, Base, Rules, Made
	Given map[string]bool // which settings of the job the user gave: "np", "nproc-per-node", …

	// Again: begin a new job under this name. Resume: go on from the newest checkpoint that nodes
	// of this name bring.
	Again, Resume bool
	Borrowed      bool   // the job has its id from another launcher: one that is done begins anew
	OtherProgram  bool   // allow another program than the other nodes run
	Node          string // wanted name
	NodeGiven     bool   // set by --node: take no other name
	Place         int    // one more than the rank that this node was given; 0: any
	Role          string // of this node's workers; "": default
	Machine       string // boot id
	Hardware      machines.Machine
	Warm          bool // workers may start before a world has this node

	LeaseTTL       time.Duration
	ConnectTimeout time.Duration // for the first contact; 0: none
}

// Workers is the part of this node's workers that joining needs.
type Workers interface {
	// Open is called once, first, with the name of this node, and the checkpoints of a job that was made
	// again. It returns where logs go.
	Open(node string, job rendezvous.Job, committed []checkpoint.Head) (logs string, err error)
	// AdoptJob continues with job, which was made again after its store was lost. Workers go on.
	AdoptJob(job rendezvous.Job) error
	// Sweep ends the processes that an earlier agent of this node and job left. It returns nil when
	// none is left.
	Sweep(ctx context.Context) error
}

// Peers is the part of the other agents that joining needs.
type Peers interface {
	RecoveryPeers
	// Here returns the address at which others dial this agent. It may change when the machine gets
	// another one.
	Here() string
	// Open lets Peers prove that it belongs to the job of that identity, and answer nodes that
	// prove the same. A later call for another job also replaces the secret.
	Open(secret []byte, job schema.Job, uid schema.UID)
	// Probe dials a node once, with its own deadline.
	Probe(ctx context.Context, to membership.Ref) membership.Answer
	// Reach asks the node by to dial address, which is this agent's, and returns the result. An
	// error means that by did not answer.
	Reach(ctx context.Context, by membership.Ref, address string) (membership.AnswerKind, error)
}

// Disk is the data of this node.
type Disk interface {
	// LastGeneration returns the highest generation that the node ever recorded.
	LastGeneration(node string) (schema.Generation, error)
	// Lock takes the lock of node and job. It returns message.ErrLocked while another agent of this
	// host has it.
	Lock(node string) (unlock func(), err error)
	// HostID returns the random id of the state directory: the same id means the same locks.
	HostID() string
	// Remember durably writes what node knows of its job.
	Remember(node string, m *rendezvous.Memory) error
	// Recall returns what Remember wrote of the job with that identity, if the disk has data of it.
	// Otherwise it returns what it wrote of the present one; nil: nothing.
	Recall(node string, of schema.UID) (*rendezvous.Memory, error)
	// MoveAside moves the data of the present job aside, before any of it is opened. It returns the
	// checkpoint that stays for the next job; nil: there is none.
	MoveAside(ctx context.Context, node string, what rendezvous.Aside) (*rendezvous.Brought, error)
}

// Saves is the part of the checkpoints that joining needs.
type Saves interface {
	// CommitLeft commits what rank 0 of w, which is gone, left on this disk uncommitted; self is
	// this node.
	CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error
	// Knows returns the newest commit of which this disk has a record, and the captures of
	// generation g that it has.
	Knows(g schema.Generation) plan.Knowledge
}

// Deps are the interfaces to everything outside.
type Deps struct {
	Store   store.Store
	Workers Workers
	Peers   Peers
	Disk    Disk
	Saves   Saves
	Say     func(message.Line)

	Members *follow.MemberCache
	Memory  *Memory
	Send    func(ctx context.Context, e message.Event) // hands an event to the agent's loop
}

// Joiner joins the job, and joins again whenever this node lost its registration. While Enter runs,
// the agent has no worker and no registration.
type Joiner struct {
	Config
	Deps
	requests txn.Requests
	registry membership.Registry
	state    joinState
}

// New returns the Joiner of an agent.
func New(c Config, d Deps) *Joiner {
	return &Joiner{Config: c, Deps: d,
		requests: txn.Requests{Store: d.Store, Job: c.Job.Name},
		registry: membership.Registry{Store: d.Store, Job: c.Job.Name}}
}

// NodeName is the name of this node; "" before its first registration.
func (j *Joiner) NodeName() string { return j.state.node }

// Close unlocks the name of this node.
func (j *Joiner) Close() {
	if j.state.unlock != nil {
		j.state.unlock()
	}
}

// reader reads the job.
func (j *Joiner) reader() follow.Reader {
	return follow.Reader{Store: j.Store, Job: j.Job.Name, Members: j.Members}
}
