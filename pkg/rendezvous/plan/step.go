package plan

import (
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Step is the next change of a job. The node that takes it proves by its guards that the snapshot
// it was planned on still holds.
type Step interface{ step() }

type (
	// Nothing means that no step is needed, or none before Until.
	Nothing struct{ Until time.Time }
	// Propose makes World the next generation. It is the fence.
	Propose struct {
		World   rendezvous.World
		Evicted []verdict.Member // gone, and still registered: their keys are deleted
		Dropped []verdict.Member // members or leavers before, nothing now: shown to be unregistered
		Lost    []verdict.Member // of these two, whose loss was not reported yet
		Failure *ReportedFailure
		NewHead *checkpoint.Head // the newest commit is unreadable: this becomes the head
		Older   *checkpoint.Head // and it is this older one, under a new number
		// Distrust says why the newest commit is not used although it can be read; "": it cannot be
		// read.
		Distrust string
	}
	// Hold turns the world to waiting, in which no worker trains.
	Hold struct {
		Hold       rendezvous.Hold
		Lost       []verdict.Member
		Ledger     rendezvous.Ledger
		Failure    *ReportedFailure
		Quarantine []rendezvous.Quarantine // nil: as it is
	}
	// Run turns a forming world into a running one: the barrier is full.
	Run struct{ Master rendezvous.Master }
	// Finish turns the world to finishing: a worker of Node has finished.
	Finish struct{ Node string }
	// ReportLost reports the loss of nodes that were no members. It changes nothing else.
	ReportLost struct{ Lost []verdict.Member }
	// End closes the attempt: done, failed or stopped.
	End struct {
		Phase   rendezvous.Phase
		Outcome rendezvous.Outcome
		Ledger  rendezvous.Ledger
		Lost    []verdict.Member
		By      string // the node that takes the step, and so reports the lost ones
		Failure *ReportedFailure
	}
)

func (Nothing) step() {}

func (Propose) step() {}

func (Hold) step() {}

func (Run) step() {}

func (Finish) step() {}

func (ReportLost) step() {}

func (End) step() {}

// ReportedFailure is a failure with the judgement that its event reports.
type ReportedFailure struct {
	rendezvous.Failure
	Collateral, Spent bool
}

// maxDropped leaves room in Propose for its own guards. Dropped nodes beyond it pass the barrier as
// leavers, which need no guard.
const maxDropped = 100

// MaxReported leaves room for the guards of each.
const MaxReported = (store.MaxOps - 3) / 3

// mostEvents of losses go with one Propose; history has room for a thousand.
const mostEvents = 900
