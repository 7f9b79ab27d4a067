// Package message has what goes between the machine of an agent and its outside. Events come in: what
// the agent learns from the store, its workers, its peers and the user; the machine applies one at a
// time. Actions go out: package agent carries them out, and an outcome that matters comes back as an
// event. Notices are lines for the user, and refusals are the reasons why a node may not join its
// job. The package is pure.
package message

import (
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Event is something that this agent learned. The answer to a request names the incarnation that
// sent it, so a late answer does not count for the next incarnation.
type Event interface{ event() }

type (
	// StoreRead is an update of the follower, or the answer to Read.
	StoreRead struct {
		follow.Update
		Asked bool // it answers Read
	}
	// Entered answers Enter.
	Entered struct {
		Node  membership.Node
		Job   rendezvous.Job
		Head  checkpoint.Head   // the newest commit that the store showed just before
		Fence schema.Generation // likewise
		TTL   time.Duration
		Logs  string // directory of its workers' logs, as shown to the user
		// Nodes is the number of registered nodes, and Before the number of those with a lower
		// name, at the time of joining. Both are counted only up to machine.Few + 1.
		Nodes, Before int
		Lines         []string // for the user
		Over          *Result  // not nil: the node cannot take part, or need not
		Warms         bool     // the others go on without it until PublishWarm
	}
	// PublishedWarm answers PublishWarm.
	PublishedWarm struct {
		As    membership.Incarnation
		Err   error
		Local bool // this node could not be ready
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
		InMemory   bool      // no checkpoint was fetched
		Begun      time.Time // when Ready was sent, which is also a read of the World: it compares the fence
		Err        error
		Local      bool // Err is an error of this node, and not of the store or because of a newer World
	}
	// Started answers StartWorkers.
	Started struct {
		Generation schema.Generation
		Err        error
		Code       int // exit status for Err: 125, 126, 127
	}
	// Hung: no worker of the World makes progress. Failure names the worker that the others wait
	// for.
	Hung struct {
		Generation schema.Generation
		Failure    rendezvous.Failure
	}
	// Exited is the end of one worker.
	Exited struct {
		Generation schema.Generation
		WorkerExit
	}
	// Staying: whether all workers of a generation can stay for the next one has changed.
	Staying struct {
		Generation schema.Generation
		Can        bool
	}
	// Paused answers PauseWorkers: no worker takes part in a collective of that generation any
	// more.
	Paused struct {
		Generation schema.Generation
		Held       *int64 // the lowest step of their states; nil: one of them holds none
		Err        error  // one of them failed to answer: they are ended
	}
	// Halted: no process of the workers of a generation is left.
	Halted struct{ Generation schema.Generation }
	// Closed answers CloseSaves: no capture up to that generation is under way.
	Closed struct {
		Generation schema.Generation
		Err        error
	}
	// StoreBehind: the store shows an older commit than this node's disk has.
	StoreBehind struct{}
	// Remembered answers Remember.
	Remembered struct {
		Memory rendezvous.Memory
		Err    error
	}
	// Waiting says what this node waits for before it can join.
	Waiting struct{ Text string }
	// Remade answers Remake.
	Remade struct {
		Job   *rendezvous.Job // the store has the job again; nil: it does not, yet
		Again bool            // look again at once
		Text  string          // for the user; "": nothing
		Err   error           // store.ErrMoved: this job is over
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
		Holds  []string // the watchers that still suspect it
	}
	// WatchersAsked answers AskWatchers.
	WatchersAsked struct {
		About membership.Ref
		Holds []string // the watchers that still suspect it
	}
	// Awaited answers AwaitAnswer. Without Err, the suspicion had no answer for the time that a
	// node may take, while the store answered promptly. Answer is the result of a dial of the node.
	Awaited struct {
		About  membership.Ref
		Rev    int64 // of the suspicion
		Answer membership.Answer
		Err    error
	}
	// SuspicionAnswered answers AnswerSuspicion.
	SuspicionAnswered struct{ Err error }
	// Signaled is a signal of the watcher, or the answer of a peer that announces a larger generation.
	// That one is about no node.
	Signaled struct{ membership.Signal }
	// Suspected answers Suspect.
	Suspected struct {
		About []membership.Incarnation
		Rev   int64 // revision of the records
		Err   error
	}
	// Withdrawn answers Withdraw.
	Withdrawn struct{ Err error }
	// Reports are several Probed, Signaled, Suspected and Withdrawn events that came at one moment.
	// A large job is judged once for all of them.
	Reports struct{ All []Event }
	// Left answers Leave.
	Left struct {
		As    membership.Incarnation
		Quick bool
		Err   error
	}
	// Asked: the user, the supervisor or the disk of this node asks it to leave.
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
func (Waiting) event()           {}
func (Remade) event()            {}
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
