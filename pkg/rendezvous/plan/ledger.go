package plan

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	refill    = 10 * time.Minute // of running give the whole budget back
	healthy   = 10 * time.Second // of running count as progress
	maxIdle   = 5                // generations without progress end the job
	maxWait   = 30 * time.Second // of back-off
	exitNever = 93               // a restart does not cure it
)

// Settled is the ledger after a generation, and what follows from it.
type Settled struct {
	Ledger     rendezvous.Ledger
	Backoff    time.Duration
	Fail       *rendezvous.Outcome // the attempt is over
	Collateral bool                // the failure was caused by something else
	Spent      bool                // the failure spent a restart
	Pardoned   bool                // a failure that was charged gave its restart back
}

// settle closes the books of the generation of w: f is its failure, lost whether nodes were lost that
// explain it, ran how long it ran (0: it never did), progress whether it committed or told any. Who was lost is counted
// where it is told.
func settle(w *rendezvous.World, rules rendezvous.Rules, head checkpoint.Number, f *rendezvous.Failure, lost bool, ran time.Duration, progress bool) Settled {
	s := Settled{Ledger: w.Ledger}
	l := &s.Ledger
	l.Closed = w.Generation
	if ran > 0 || w.Master != nil { // who came since did not see it run
		l.Ran++
	}
	if ran >= refill {
		l.Used = 0
	}
	moved := progress || ran >= healthy || head > l.Head
	l.Head = head
	s.Pardoned = lost && pardon(l, w)
	if f == nil {
		if moved {
			l.NoProgress = 0
		}
		return s
	}
	l.LastFailure = f.String()
	s.Collateral = lost
	if s.Collateral || f.AsksForRestart() {
		if l.NoProgress++; moved {
			l.NoProgress = 0
		}
		if l.NoProgress >= maxIdle {
			s.Fail = &rendezvous.Outcome{Code: exitNever, Source: "elastic", Node: &f.Node, Why: rendezvous.NoProgress,
				Message: fmt.Sprintf("%d generations in a row ended without a commit, told progress or %s of running; the last: %s", l.NoProgress, healthy, f)}
		}
		return s
	}
	l.NoProgress = 0
	if l.Used >= rules.MaxRestarts {
		s.Fail = failed(f, fmt.Sprintf("restarts used (%d of %d)", l.Used, rules.MaxRestarts))
		return s
	}
	s.Spent = true
	l.Used++
	l.Charged = w.Generation
	s.Backoff = backoff(l.Used)
	return s
}

// pardon gives back the restart that a failure was charged, which turns out to be the victim of a loss: a
// failure of w, that waits since, or of the generation before it while w has not run.
func pardon(l *rendezvous.Ledger, w *rendezvous.World) bool {
	if l.Used == 0 || l.Charged != w.Generation && (l.Charged+1 != w.Generation || w.Master != nil) {
		return false
	}
	l.Used--
	l.Charged = 0
	return true
}

// backoff is 0, 1, 2, 4, … 30 s for the first, second, … cause.
func backoff(used int) time.Duration {
	if used <= 1 {
		return 0
	}
	return min(maxWait, time.Second<<min(used-2, 10))
}

func failed(f *rendezvous.Failure, message string) *rendezvous.Outcome {
	rank, local, code := f.Rank, f.LocalRank, f.Code
	o := &rendezvous.Outcome{Code: f.Status(), Source: "worker", Node: &f.Node, Rank: &rank, LocalRank: &local,
		Why: rendezvous.RestartsUsed, Message: message, Failure: f}
	if f.Signal == "" {
		o.ExitCode = &code
	} else {
		o.Signal = &f.Signal
	}
	return o
}

// lose counts those who are told lost, in the books that go with their events: nobody is counted twice, or told and not counted.
func countLost(l rendezvous.Ledger, told []verdict.Member) rendezvous.Ledger {
	l.Lost += len(told)
	return l
}
