// Package event has the types of what an agent learns: from the store, its workers, its peers, and
// the user. The machine takes them in, one at a time.
package event

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Event is something that this agent learned. The answer to a request of an incarnation names it,
// so that a late answer says nothing of the next incarnation.
type Event interface{ event() }

type (
	// StoreRead is an update of the follower, or the answer to Read.
	StoreRead struct {
		follow.Update
		Asked bool // it answers Read
	}
	// Entered answers Enter.
	Entered struct {
		Node membership.Node
		Job  rendezvous.Job
		TTL  time.Duration
		Logs string // directory of its workers' logs, as shown to the user
		// Nodes is how many nodes were registered then, and Before how many of them have a lower
		// name: both are counted up to one more than machine.Few.
		Nodes, Before int
		Lines         []string
		Over          *Result // it cannot, or need not, take part
		Warms         bool    // the others go on without this node until its workers wait
	}
	// PublishedWarm answers PublishWarm.
	PublishedWarm struct {
		As  membership.Incarnation
		Err error
	}
	// Renewed is the outcome of one renewal of a lease.
	Renewed struct {
		Lease store.Lease
		Sent  time.Time
		Err   error
	}
	// Registered answers Register.
	Registered struct {
		As    membership.Incarnation
		Lease store.Lease
		Rev   int64
		TTL   time.Duration
		Err   error
	}
	// Located answers Locate.
	Located struct{ Address string }
	// Stepped answers Take.
	Stepped struct {
		World rendezvous.World
		Err   error
	}
	// Readied answers GetReady.
	Readied struct {
		Generation schema.Generation
		Ports      []int
		Resume     Resume
		InMemory   bool      // no checkpoint was brought here
		Begun      time.Time // when Ready was sent: its guard, the fence, makes it a read of the world
		Err        error
		Local      bool // Err is a fault of this node: the store answers, and no newer world overtook it
	}
	// Started answers StartWorkers.
	Started struct {
		Generation schema.Generation
		Err        error
		Code       int // exit status that Err stands for: 125, 126, 127
	}
	// Hung: no worker of the world shows a sign of life, and Failure names the one that the others
	// wait for.
	Hung struct {
		Generation schema.Generation
		Failure    rendezvous.Failure
	}
	// Exited is the end of one worker.
	Exited struct {
		Generation schema.Generation
		WorkerExit
	}
	// Staying: all workers of a generation can stay for the next one, or one of them cannot any
	// more.
	Staying struct {
		Generation schema.Generation
		Can        bool
	}
	// Paused answers PauseWorkers: no worker takes part in a collective of that generation any
	// more.
	Paused struct {
		Generation schema.Generation
		Held       *int64 // the least step of their states; nil: one of them holds none
		Err        error  // one of them did not answer as it should: they are ended
	}
	// Halted: no process of the workers of a generation is left.
	Halted struct {
		Generation schema.Generation
		Took       time.Duration
	}
	// Closed answers CloseSaves: no capture up to that generation is under way.
	Closed struct {
		Generation schema.Generation
		Err        error
	}
	// StoreBehind: the store shows an older commit than the disk of this node knows.
	StoreBehind struct{}
	// Remembered answers Remember.
	Remembered struct {
		World schema.Generation
		Err   error
	}
	// Claiming says what a node waits for whose job the store has lost.
	Claiming struct{ Text string }
	// Reclaimed answers Reclaim: the store holds a job of the name again.
	Reclaimed struct {
		Job rendezvous.Job
		Err error
	}
	// ExitReported answers ReportExit.
	ExitReported struct {
		Generation schema.Generation
		Rev        int64
		Exit       rendezvous.Exit
		Err        error
	}
	// FailureReported answers ReportFailures.
	FailureReported struct {
		Generation schema.Generation
		Err        error
	}
	// Probed answers Probe.
	Probed struct {
		About  membership.Ref
		Answer membership.Answer
		Holds  []string // watchers that still suspect it
	}
	// WatchersAsked answers AskWatchers.
	WatchersAsked struct {
		About membership.Ref
		Holds []string // those that still suspect it
	}
	// Awaited answers AwaitAnswer. Without Err the suspicion stood unanswered for as long as a node
	// may take, in a store that answered promptly, and Answer is what a dial of the node brought.
	Awaited struct {
		About  membership.Ref
		Rev    int64 // of the suspicion
		Answer membership.Answer
		Err    error
	}
	// SuspicionAnswered answers AnswerSuspicion.
	SuspicionAnswered struct{ Err error }
	// Signaled is what the watch over other nodes saw.
	Signaled struct{ Signal }
	// Suspected answers Suspect.
	Suspected struct {
		About []membership.Incarnation
		Rev   int64 // of the records
		Err   error
	}
	// Withdrawn answers Withdraw.
	Withdrawn struct{ Err error }
	// Reports are several of Probed, Signaled, Suspected and Withdrawn that came in one moment: a
	// large job is judged once for all of them.
	Reports struct{ All []Event }
	// Left answers Leave.
	Left struct {
		As    membership.Incarnation
		Quick bool
		Err   error
	}
	// Asked is the user's or the supervisor's wish that this node goes.
	Asked struct{ Leaving }
	// Ticked: time passes.
	Ticked struct{}
)

func (StoreRead) event()         {}
func (Entered) event()           {}
func (PublishedWarm) event()     {}
func (Renewed) event()           {}
func (Registered) event()        {}
func (Located) event()           {}
func (Stepped) event()           {}
func (Readied) event()           {}
func (Started) event()           {}
func (Hung) event()              {}
func (Exited) event()            {}
func (Staying) event()           {}
func (Paused) event()            {}
func (Halted) event()            {}
func (Closed) event()            {}
func (StoreBehind) event()       {}
func (Remembered) event()        {}
func (Claiming) event()          {}
func (Reclaimed) event()         {}
func (ExitReported) event()      {}
func (FailureReported) event()   {}
func (Probed) event()            {}
func (WatchersAsked) event()     {}
func (Awaited) event()           {}
func (SuspicionAnswered) event() {}
func (Signaled) event()          {}
func (Reports) event()           {}
func (Suspected) event()         {}
func (Withdrawn) event()         {}
func (Left) event()              {}
func (Asked) event()             {}
func (Ticked) event()            {}
