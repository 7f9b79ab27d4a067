package machine

import (
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Event is something that this agent learned. One that ends what was asked for an incarnation says for which: what
// comes late says nothing of the next.
type Event interface{ event() }

type (
	// Saw is what the follower or a read found.
	Saw struct {
		rendezvous.Seen
		Asked bool // the answer to Read
	}
	// Entered is the end of Enter.
	Entered struct {
		Node  membership.Node
		Job   rendezvous.Job
		TTL   time.Duration
		Logs  string // where those of its workers are, as shown to the user
		Lines []string
		Over  *Result // it cannot, or need not, take part
	}
	// Renewed is the outcome of one renewal of a lease.
	Renewed struct {
		Lease store.Lease
		Sent  time.Time
		Err   error
	}
	// Registered is the end of Register.
	Registered struct {
		As    membership.Incarnation
		Lease store.Lease
		Rev   int64
		TTL   time.Duration
		Err   error
	}
	// Located is the end of Locate.
	Located struct{ Address string }
	// Stepped is the end of Take.
	Stepped struct {
		World rendezvous.World
		Err   error
	}
	// Readied is the end of GetReady.
	Readied struct {
		Generation schema.Generation
		Ports      []int
		Resume     Resume
		Begun      time.Time // when Ready was sent: its guard, the fence, is a read of the world
		Err        error
		Local      bool // Err is a fault of this node, not of the store and not an overtaking world
	}
	// Started is the end of StartWorkers.
	Started struct {
		Generation schema.Generation
		Err        error
		Code       int // exit status that Err stands for: 125, 126, 127
	}
	// Exited is the end of one worker.
	Exited struct {
		Generation schema.Generation
		WorkerExit
	}
	// Halted: nothing is left of the workers of a generation.
	Halted struct {
		Generation schema.Generation
		Took       time.Duration
	}
	// Closed: nothing is left of its captures.
	Closed struct {
		Generation schema.Generation
		Err        error
	}
	// Remembered is the end of Remember.
	Remembered struct {
		World schema.Generation
		Err   error
	}
	// Claiming: the store has lost the job, and this is what is waited for.
	Claiming struct{ Text string }
	// Reclaimed is the end of Reclaim: the store holds a job of the name again.
	Reclaimed struct {
		Job rendezvous.Job
		Err error
	}
	// Reported is the end of ReportExit and ReportFailure.
	Reported struct {
		Slot       string
		Generation schema.Generation
		Rev        int64
		Exit       rendezvous.Exit
		Err        error
	}
	// Probed is an answer to Probe.
	Probed struct {
		About  membership.Ref
		Answer membership.Answer
		Holds  []string // watchers who say that they still suspect it
	}
	// Signaled is what the watch over other nodes saw.
	Signaled struct{ Signal }
	// Wrote is the end of Suspect and Clear.
	Wrote struct {
		Slot string
		Rev  int64 // of what Suspect wrote
		Err  error
	}
	// Left is the end of Leave.
	Left struct {
		As    membership.Incarnation
		Quick bool // the Leave that was not to take longer than a second
		Err   error
	}
	// Asked is the user's or the supervisor's wish that this node goes.
	Asked struct{ Leaving }
	// Ticked: time passes.
	Ticked struct{}
)

func (Saw) event()        {}
func (Entered) event()    {}
func (Renewed) event()    {}
func (Registered) event() {}
func (Located) event()    {}
func (Stepped) event()    {}
func (Readied) event()    {}
func (Started) event()    {}
func (Exited) event()     {}
func (Halted) event()     {}
func (Closed) event()     {}
func (Remembered) event() {}
func (Claiming) event()   {}
func (Reclaimed) event()  {}
func (Reported) event()   {}
func (Probed) event()     {}
func (Signaled) event()   {}
func (Wrote) event()      {}
func (Left) event()       {}
func (Asked) event()      {}
func (Ticked) event()     {}

// Action is something to be done, outside.
type Action interface{ action() }

type (
	// Enter joins the job as a new incarnation: after every worker of an earlier life is gone.
	Enter struct{ Again bool }
	// Renew keeps a lease, until Forget or until it is lost.
	Renew struct {
		Lease store.Lease
		TTL   time.Duration
	}
	// Forget ends the registration from here: no more renewals, the lease is given back.
	Forget struct{ Lease store.Lease }
	// Follow sets what is followed.
	Follow struct{ Scope rendezvous.Scope }
	// Read reads the world and the own registration, linearizably.
	Read struct{}
	// Register puts the registration back under the same incarnation.
	Register struct {
		Node     membership.Node
		WorldRev int64
	}
	// Locate asks where this node is.
	Locate struct{}
	// Take makes a step of the plan true.
	Take struct {
		Seen rendezvous.Snapshot
		Me   membership.Node
		Step rendezvous.Step
		Idle time.Duration
		Fall rendezvous.Waterfall // Run: where the time went
	}
	// GetReady prepares this node for a generation and reports Ready. A newer one overtakes an older one.
	GetReady struct {
		World  rendezvous.World
		Job    rendezvous.Job
		Head   checkpoint.Head // newest commit that is known
		Me     membership.Node
		Member bool
		StopMS int64
		Idle   time.Time // nothing of its workers was left; zero: it had none
	}
	// StartWorkers starts the workers of a generation.
	StartWorkers struct{ Start }
	// HaltWorkers ends them. A harder one overtakes a softer one that is under way.
	HaltWorkers struct {
		Gen    schema.Generation
		How    Halt
		Reason string
		Grace  time.Duration
	}
	// CloseSaves ends the captures up to a generation. One that is not to take what was left complete overtakes
	// one that is.
	CloseSaves struct {
		Generation schema.Generation
		Last       bool
	}
	// Remember keeps what this node would claim if the store lost the job.
	Remember struct{ Claim rendezvous.Claim }
	// Reclaim claims the job, which the store has lost, until it is there again.
	Reclaim struct{ Claim rendezvous.Claim }
	// ReportExit and ReportFailure tell how workers ended.
	ReportExit struct {
		World rendezvous.World
		Node  string
		Seen  int64
		Exit  rendezvous.Exit
	}
	ReportFailure struct {
		World   rendezvous.World
		Failure rendezvous.Failure
	}
	// Probe dials a node, and asks those who suspect it whether they still do.
	Probe struct {
		About    membership.Ref
		Watchers []membership.Ref
	}
	// WatchNodes sets whose heartbeats are watched.
	WatchNodes struct{ Refs []membership.Ref }
	// Suspect writes a suspicion, Clear takes it back.
	Suspect struct {
		Suspicion  membership.Suspicion
		Me         membership.Node
		Generation schema.Generation
	}
	Clear struct {
		About      membership.Incarnation
		Node, By   string
		Rev        int64
		Generation schema.Generation
		Answers    bool // it answers again; else nothing is told
	}
	// SayHello is what this agent answers from now on.
	SayHello struct{ Hello }
	// Leave ends the registration, with a word. A quick one overtakes one that is not.
	Leave struct {
		Me         membership.Node
		Generation schema.Generation
		Why        membership.Reason
		Stop       *rendezvous.Snapshot // the last node of a job with a made-up name: stop it first
		Quick      bool                 // not longer than a second
		Ended      rendezvous.Phase     // of the job, if that is why
	}
	// Say tells the user.
	Say struct{ Line }
	// Recall tells where the time of a start went.
	Recall struct {
		World rendezvous.World
		Fall  rendezvous.Waterfall
	}
	// Wake asks for a tick at that time.
	Wake struct{ At time.Time }
	// Quit ends the agent.
	Quit struct{ Result }
)

func (Enter) action()         {}
func (Renew) action()         {}
func (Forget) action()        {}
func (Follow) action()        {}
func (Read) action()          {}
func (Register) action()      {}
func (Locate) action()        {}
func (Take) action()          {}
func (GetReady) action()      {}
func (StartWorkers) action()  {}
func (HaltWorkers) action()   {}
func (CloseSaves) action()    {}
func (Remember) action()      {}
func (Reclaim) action()       {}
func (ReportExit) action()    {}
func (ReportFailure) action() {}
func (Probe) action()         {}
func (WatchNodes) action()    {}
func (Suspect) action()       {}
func (Clear) action()         {}
func (SayHello) action()      {}
func (Leave) action()         {}
func (Say) action()           {}
func (Recall) action()        {}
func (Wake) action()          {}
func (Quit) action()          {}

// actions collects what Decide says.
type actions struct {
	list []Action
	at   time.Time
}

func (a *actions) do(_ string, act Action) { a.list = append(a.list, act) }

func (a *actions) wake(at time.Time) {
	if at.IsZero() || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	a.list = append(a.list, Wake{at})
}
