package plan

import (
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Step is the next change of a job. The guards of its transaction prove that the snapshot from which it
// was planned is still current.
type Step interface{ step() }

type (
	// Nothing means that no step is needed, or none before Until.
	Nothing struct{ Until time.Time }
	// Propose makes World the next generation. It moves the fence.
	Propose struct {
		World   rendezvous.World
		Evicted []verdict.Member // gone but still registered: their keys are deleted
		Dropped []verdict.Member // no longer members or leavers: the guards show that they are not registered
		Lost    []verdict.Member // lost nodes that no event reports yet
		Failure *ReportedFailure
		NewHead *checkpoint.Head // the head that replaces the newest commit; nil: none does
		Older   *checkpoint.Head // the older checkpoint that NewHead is, under its old number
		// Distrust says why NewHead replaces a newest commit that can be read; "": that commit
		// cannot be read.
		Distrust string
		// BroughtFrom is the earlier job of this name from which nodes brought NewHead; "": none.
		BroughtFrom schema.UID
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
		Unsaved string // what training a stop lost; "": none
		By      string // the node that takes the step and reports the lost nodes
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

// ReportedFailure is a failure with what its event says of the cause.
type ReportedFailure struct {
	rendezvous.Failure
	Collateral, Spent bool
}

// maxDropped leaves room for the other guards of Propose. Further dropped nodes become leavers,
// which need no guard.
const maxDropped = 100

// MaxReported is the number of losses that one transaction can guard.
const MaxReported = (store.MaxOps - 3) / 3

// mostEvents bounds the events of losses in one Propose; one transaction can have a thousand
// events.
const mostEvents = 900
