// Package action has the types of what the machine of an agent asks for. Package runtime carries
// them out; where the outcome matters, it comes back as an event.
package action

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Action is something to be done outside.
type Action interface{ action() }

type (
	// Enter joins the job as a new incarnation, after every worker of an earlier one is gone.
	Enter struct{ Again bool }
	// Renew keeps a lease, until Forget or until it is lost.
	Renew struct {
		Lease store.Lease
		TTL   time.Duration
	}
	// Forget ends the registration from here: no more renewals, the lease is given back.
	Forget struct{ Lease store.Lease }
	// Follow sets the scope that is followed.
	Follow struct{ Scope follow.Scope }
	// Read reads the world and the own registration, linearizably.
	Read struct{}
	// Register puts the registration back under the same incarnation.
	Register struct {
		Node     membership.Node
		WorldRev int64
	}
	// Locate asks for this node's address.
	Locate struct{}
	// Take makes a step of the plan true.
	Take struct {
		Seen rendezvous.Snapshot
		Me   membership.Node
		Step plan.Step
		Idle time.Duration     // how long no worker has run here
		Fall rendezvous.Timing // of a Run: where the time went
	}
	// GetReady prepares this node for a generation and reports Ready. A newer one overtakes an
	// older one.
	GetReady struct {
		World  rendezvous.World
		Memory rendezvous.Claim // what this node would claim, written down before Ready
		Me     membership.Node
		Member bool
		// InMemory: the workers of this node wait for this World and hold a state that is as new as
		// its checkpoint. They need none.
		InMemory bool
		Ports    int // that its workers need
		StopMS   int64
		Idle     time.Time // when nothing of its workers was left; zero: it had none
	}
	// PublishWarm says that this node need not be waited for any more: its workers wait, or are not
	// started before a world has it.
	PublishWarm struct{ Me membership.Node }
	// StartWorkers starts the workers of a generation.
	StartWorkers struct{ Start }
	// HaltWorkers ends them. A harder one overtakes a softer one that is under way.
	HaltWorkers struct {
		Generation schema.Generation
		How        Halt
		Reason     string
		Grace      time.Duration
	}
	// PauseWorkers has them leave their generation and wait for the World of the next one.
	PauseWorkers struct{ Generation schema.Generation }
	// ContinueWorkers hands the World of a newer generation to workers that wait for it. Where one
	// of them has ended it ends the others and starts new ones.
	ContinueWorkers struct{ Start }
	// CloseSaves ends the captures up to a generation; with Last it first takes what was left
	// complete. One without Last overtakes one with it.
	CloseSaves struct {
		Generation schema.Generation
		Last       bool
	}
	// Remember writes down what this node would claim if the store lost the job.
	Remember struct{ Claim rendezvous.Claim }
	// Reclaim claims the job, which the store has lost, until it is there again.
	Reclaim struct{ Claim rendezvous.Claim }
	// ReportExit tells how the workers of this node ended.
	ReportExit struct {
		World rendezvous.World
		Node  string
		Seen  int64 // revision of the record that it replaces; 0: there is none
		Exit  rendezvous.Exit
	}
	// ReportFailures tells that workers failed.
	ReportFailures struct {
		World    rendezvous.World
		Failures []rendezvous.Failure
	}
	// Probe dials a node, and asks its watchers whether they still suspect it.
	Probe struct {
		About    membership.Ref
		Watchers []membership.Ref
		Silent   bool // to its watchers, and it is registered: two of them are needed beside the dial
	}
	// AskWatchers asks more watchers of a node that was dialled a moment ago.
	AskWatchers struct {
		About    membership.Ref
		Watchers []membership.Ref
	}
	// AwaitAnswer gives a node time to answer a suspicion of this node in the store, or to renew its
	// lease.
	AwaitAnswer struct {
		About     membership.Ref
		Lease     store.Lease
		Suspicion membership.Suspicion
	}
	// AnswerSuspicion says in the store that this node lives, which another one suspects.
	AnswerSuspicion struct {
		Suspicion membership.Suspicion
		Me        membership.Node
	}
	// WatchNodes sets the nodes whose heartbeats are watched.
	WatchNodes struct{ Refs []membership.Ref }
	// Suspect writes suspicions, all or none.
	Suspect struct {
		Suspicions []membership.Suspicion
		Me         membership.Node
		Generation schema.Generation
	}
	// Withdraw takes suspicions back, all or none.
	Withdraw struct {
		Suspicions []membership.Withdrawal
		Generation schema.Generation
	}
	// SayHello sets what this agent answers to its peers.
	SayHello struct{ Hello }
	// Leave ends the registration, and tells why. A quick one overtakes one that is not.
	Leave struct {
		Me         membership.Node
		Generation schema.Generation
		Why        membership.Reason
		Stop       *rendezvous.Snapshot // the last node of a job with a made-up name: stop it first
		Quick      bool                 // within a second
		Ended      rendezvous.Phase     // of the job, if that is why
	}
	// Say tells the user.
	Say struct{ Line }
	// PublishTiming tells where the time of a start went.
	PublishTiming struct {
		World  rendezvous.World
		Timing rendezvous.Timing
	}
	// Wake asks for a tick at that time.
	Wake struct{ At time.Time }
	// Quit ends the agent.
	Quit struct{ event.Result }
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
func (Reclaim) action()         {}
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
