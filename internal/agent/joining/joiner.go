// Package joining has a node join its job: it takes a name, makes the job if there is none, waits
// for one that the store has lost, and registers. docs/PROTOCOL.md, section 10, has the rules for a
// job that is lost.
package joining

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/recovery"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Config is what this node was given about its job and its place there.
type Config struct {
	Job   rendezvous.Job  // as this agent would make it: Name, Limits, Slots, Base, Rules, Made
	Given map[string]bool // which settings of the job the user gave: "np", "nproc-per-node", …

	Again        bool   // a job that is done is removed, and made anew
	OtherProgram bool   // this node may run another program than the nodes that are here
	Node         string // name that is wanted
	NodeGiven    bool   // by --node: no other will do
	Place        int    // one more than the rank that this node was given; 0: any
	Machine      string // boot id
	Warm         bool   // workers may start before a world has this node

	LeaseTTL       time.Duration
	ConnectTimeout time.Duration // for the first contact; 0: none
	StoreCutLimit  time.Duration
	Settle         time.Duration // for nodes of a job that a new store may have lost; 0: none
}

// Workers is what joining needs of the workers of this node.
type Workers interface {
	// Open tells it its node's name, once, before everything else; it answers where logs go.
	Open(node string, job rendezvous.Job) (logs string, err error)
	// AdoptJob has it go on with job, which was made again after its store was lost.
	AdoptJob(job rendezvous.Job) error
	// Sweep ends what an earlier agent of this node and job left behind; nil when nothing of it is
	// left.
	Sweep(ctx context.Context) error
}

// Peers is what joining needs of the other agents.
type Peers interface {
	// Here is the address that others dial this agent at: of now, because a machine may get another
	// one.
	Here() string
	// Open lets it prove that it belongs to the job, and answer nodes that prove the same. Opened
	// again, for the job that replaces it, with another secret, it forgets the one before.
	Open(secret []byte, job schema.Job, uid schema.UID)
	// Probe dials a node once, with a deadline of its own.
	Probe(ctx context.Context, to membership.Ref) membership.Answer
	// Reach asks by to dial address, which is this agent's, and returns what that brought. An
	// error: by did not answer.
	Reach(ctx context.Context, by membership.Ref, address string) (membership.AnswerKind, error)
}

// Disk is what this node keeps.
type Disk interface {
	recovery.Disk
	// Lock takes the lock of node and job; refusal.ErrLocked while another agent of this host has
	// it.
	Lock(node string) (unlock func(), err error)
	// HostID is random, kept in the state directory: same id, same locks.
	HostID() string
	// Remember keeps what node would claim if the store lost the job, durably; nil: nothing any
	// more.
	Remember(node string, c *rendezvous.Claim) error
	// Recall is what it remembers: nil where it never was in the job.
	Recall(node string) (*rendezvous.Claim, error)
	// ComeLate comes before the checkpoints of node are opened for a job that went on, as seen, from an
	// older state than they are of: what is newer is kept, and offered.
	ComeLate(node string, seen *rendezvous.Snapshot) error
	// Others are what the other nodes of this host remember of the job on this server.
	Others(node string) []rendezvous.Claim
}

// Saves is what joining needs of the checkpoints.
type Saves interface {
	// CommitLeft commits what rank 0 of w, which is gone, left on this disk and could not commit;
	// self is this node.
	CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error
}

// Deps is everything outside.
type Deps struct {
	Store   store.Store
	Workers Workers
	Peers   Peers
	Disk    Disk
	Saves   Saves
	Say     func(action.Line)

	Members *follow.MemberCache
	Memory  *recovery.Memory
	Go      func(func())                             // runs an effect that the agent waits for
	Send    func(ctx context.Context, e event.Event) // hands an event to the agent's loop
}

// Joiner joins the job, again whenever this node lost its registration. Its methods that wait
// run alone: while Enter does, the agent has no worker and no registration.
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

// NodeName is the name that this node has; "" before its first registration.
func (j *Joiner) NodeName() string { return j.state.node }

// Close gives the name back.
func (j *Joiner) Close() {
	if j.state.unlock != nil {
		j.state.unlock()
	}
}

// reader reads the job.
func (j *Joiner) reader() follow.Reader {
	return follow.Reader{Store: j.Store, Job: j.Job.Name, Members: j.Members}
}
