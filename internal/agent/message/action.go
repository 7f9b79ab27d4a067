package message

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Action is something to do outside the machine.
type Action interface{ action() }

type (
	// Enter joins the job as a new incarnation, after every worker of an earlier one is gone.
	Enter struct {
		Again bool // this agent was in the job before
	}
	// Renew keeps a lease, until Forget or until it is lost.
	Renew struct {
		Lease store.Lease
		TTL   time.Duration
	}
	// Forget stops the renewals of a lease and revokes it.
	Forget struct{ Lease store.Lease }
	// Follow sets the scope that the agent follows.
	Follow struct{ Scope follow.Scope }
	// Read reads the world and the own registration, linearizably.
	Read struct{}
	// Register writes a lost registration again, under the same incarnation.
	Register struct {
		Node     membership.Node
		WorldRev int64
	}
	// Locate asks for this node's address.
	Locate struct{}
	// Take carries out a step of the plan.
	Take struct {
		Seen   rendezvous.Snapshot
		Me     membership.Node
		Step   plan.Step
		Idle   time.Duration     // how long no worker has run here
		Timing rendezvous.Timing // of a Run: its timing
	}
	// GetReady prepares this node for a generation and reports Ready. A newer request replaces an
	// older one.
	GetReady struct {
		World  rendezvous.World
		Memory rendezvous.Memory // what this node writes down before Ready
		Me     membership.Node
		Member bool
		// InMemory: no checkpoint is needed. The workers of this node wait for this World, and hold
		// a state that is as new as its checkpoint.
		InMemory bool
		Ports    int // the number that its workers need
		StopMS   int64
		Idle     time.Time // when its last older worker ended; zero: it had none
	}
	// PublishWarm records that a World may have this node: its workers wait for one, or will not
	// start before, and it proves that it can be ready.
	PublishWarm struct {
		World rendezvous.World // that trains
		Me    membership.Node
	}
	// StartWorkers starts the workers of a generation.
	StartWorkers struct{ Start }
	// HaltWorkers ends the workers. A harder way replaces a softer one that is under way.
	HaltWorkers struct {
		Generation schema.Generation
		How        Halt
		Reason     string
		Grace      time.Duration
	}
	// PauseWorkers tells the workers to leave their generation and wait for the next World.
	PauseWorkers struct{ Generation schema.Generation }
	// ContinueWorkers gives the World of a newer generation to workers that wait for it. If one of
	// them has ended, it ends all and starts new ones.
	ContinueWorkers struct{ Start }
	// CloseSaves ends the captures up to a generation. With Last it first saves what the workers
	// left complete. One without Last replaces one with it.
	CloseSaves struct {
		Generation schema.Generation
		Last       bool
	}
	// Remember writes down what this node knows of the job.
	Remember struct{ Memory rendezvous.Memory }
	// Remake brings back the job, which the store has lost.
	Remake struct {
		Me      membership.Ref
		Lost    plan.LostStore
		Cluster uint64 // the store that this node last read, and the revision there
		Rev     int64
		Try     bool // it is the turn of this node to make the job again
	}
	// ReportExit writes how the workers of this node ended.
	ReportExit struct {
		World rendezvous.World
		Node  string
		Seen  int64 // revision of the record to replace; 0: there is none
		Exit  rendezvous.Exit
	}
	// ReportFailures writes that workers failed.
	ReportFailures struct {
		World    rendezvous.World
		Failures []rendezvous.Failure
	}
	// Probe dials a node, and asks its watchers whether they still suspect it.
	Probe struct {
		About    membership.Ref
		Watchers []membership.Ref
		Silent   bool // its watchers find it silent and it is registered, so two of them must confirm
	}
	// AskWatchers asks more watchers of a node that was dialled lately.
	AskWatchers struct {
		About    membership.Ref
		Watchers []membership.Ref
	}
	// AwaitAnswer gives a node time to answer this node's suspicion in the store, or to renew its
	// lease.
	AwaitAnswer struct {
		About     membership.Ref
		Lease     store.Lease
		Suspicion membership.Suspicion
	}
	// AnswerSuspicion answers in the store a suspicion of this node.
	AnswerSuspicion struct {
		Suspicion membership.Suspicion
		Me        membership.Node
	}
	// WatchNodes sets the nodes to watch.
	WatchNodes struct{ Refs []membership.Ref }
	// Suspect writes suspicions, all or none.
	Suspect struct {
		Suspicions []membership.Suspicion
		Me         membership.Node
		Generation schema.Generation
	}
	// Withdraw deletes suspicions, all or none.
	Withdraw struct {
		Suspicions []membership.Withdrawal
		Generation schema.Generation
	}
	// SayHello sets the answer to peers.
	SayHello struct{ Hello }
	// Leave announces why this node leaves, and deletes its registration. A quick one replaces one
	// that is not.
	Leave struct {
		Me         membership.Node
		Generation schema.Generation
		Why        membership.Reason
		Stop       *rendezvous.Snapshot // to stop the job first, as its last node; nil: do not
		Quick      bool                 // within a second
	}
	// Say prints a line for the user.
	Say struct{ Line }
	// PublishTiming writes the timing of a start.
	PublishTiming struct {
		World  rendezvous.World
		Timing rendezvous.Timing
	}
	// Wake asks for an event at that time.
	Wake struct{ At time.Time }
	// Quit ends the agent.
	Quit struct{ Result }
)

func (Enter) action()           {}
func (Renew) action()           {}
func (Forget) action()          {}
func (Follow) action()          {}
func (Read) action()            {}
func (Register) action()        {}
func (Locate) action()          {}
func (Take) action()            {}
func (GetReady) action()        {}
func (PublishWarm) action()     {}
func (StartWorkers) action()    {}
func (HaltWorkers) action()     {}
func (PauseWorkers) action()    {}
func (ContinueWorkers) action() {}
func (CloseSaves) action()      {}
func (Remember) action()        {}
func (Remake) action()          {}
func (ReportExit) action()      {}
func (ReportFailures) action()  {}
func (Probe) action()           {}
func (AskWatchers) action()     {}
func (AwaitAnswer) action()     {}
func (AnswerSuspicion) action() {}
func (WatchNodes) action()      {}
func (Suspect) action()         {}
func (Withdraw) action()        {}
func (SayHello) action()        {}
func (Leave) action()           {}
func (Say) action()             {}
func (PublishTiming) action()   {}
func (Wake) action()            {}
func (Quit) action()            {}
