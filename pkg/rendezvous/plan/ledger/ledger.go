// Package ledger keeps the books of a job: what the restart budget has left, how long a job that
// makes no progress backs off, and which nodes are in quarantine. It is pure.
package ledger

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	healthy   = 10 * time.Second // of running count as progress
	maxIdle   = 5                // failures of others, in generations without progress, end the job
	maxChurn  = 5                // generations without progress; each further one waits
	maxWait   = 30 * time.Second // of back-off
	ExitNever = 93               // a restart does not cure it
)

// Settled is the ledger after a generation, and what follows from it.
type Settled struct {
	Ledger     rendezvous.Ledger
	Backoff    time.Duration
	Fail       *rendezvous.Outcome // the attempt is over
	Collateral bool                // the failure was caused by something else
	Newcomer   bool                // the failure put a node into quarantine
	Spent      bool                // the failure spent a restart
	Pardoned   bool                // a failure that was charged gave its restart back
}

// Closing is the outcome of a generation, with which its ledger is closed.
type Closing struct {
	Failure    *rendezvous.Failure
	Stranger   bool // the node of the failure runs another program than the job
	Program    string
	Lost       bool          // nodes were lost that explain the end
	Ran        time.Duration // 0: it never ran
	Progressed bool          // workers reported progress
	Head       checkpoint.Number
	Now        time.Time

	progress bool // workers reported progress, a checkpoint was committed, or it ran long enough
}

// Settle closes the books of the generation of w. Losses are counted where they are reported.
func Settle(w *rendezvous.World, rules rendezvous.Rules, e Closing) Settled {
	s := Settled{Ledger: w.Ledger}
	l := &s.Ledger
	l.Closed = w.Generation
	if e.Ran > 0 || w.Master != nil { // an agent that came since did not see it run
		l.Ran++
	}
	if e.Ran >= rendezvous.RefillAfter {
		l.Used = 0
	}
	committed := e.Progressed || e.Head > l.Head
	e.progress = committed || e.Ran >= healthy
	if committed || e.Ran >= provenAfter {
		l.Proven = w.Generation
	}
	l.Head = e.Head
	l.Nodes = forgive(l.Nodes, w, e.Ran)
	s.Pardoned = e.Lost && Pardon(l, w)
	if e.Failure != nil || e.Lost {
		l.Churn++
	}
	if e.progress {
		l.Churn, l.NoProgress = 0, 0
	}
	s.Backoff = backoff(l.Churn - maxChurn)
	if e.Failure != nil {
		l.LastFailure = e.Failure.String()
		s.charge(w, rules, e)
	}
	return s
}

// charge says what the failure of the generation costs.
func (s *Settled) charge(w *rendezvous.World, rules rendezvous.Rules, e Closing) {
	l, f := &s.Ledger, e.Failure
	s.Collateral = e.Lost
	s.Newcomer = !e.Lost && !f.Victim && !f.AsksForRestart() && l.Proven != w.Generation &&
		(e.Stranger || isNewcomer(w, f))
	if s.Newcomer {
		l.Nodes = recordFailure(l.Nodes, w, e)
		if len(w.Newcomers) > 0 {
			return // other members have proven that the job can run: it goes on with them
		}
	}
	if s.Collateral || s.Newcomer || f.AsksForRestart() {
		if !e.progress {
			l.NoProgress++
		}
		if l.NoProgress >= maxIdle {
			s.Fail = &rendezvous.Outcome{Code: ExitNever, Source: "elastic", Node: &f.Node,
				Why: rendezvous.NoProgress,
				Message: fmt.Sprintf(
					"%d generations in a row ended without a commit, reported progress or %s of running; "+
						"the last: %s", l.NoProgress, healthy, f)}
		}
		return
	}
	l.NoProgress = 0
	if l.Used >= rules.MaxRestarts {
		s.Fail = failed(f, fmt.Sprintf("restarts used (%d of %d)", l.Used, rules.MaxRestarts))
		return
	}
	s.Spent = true
	l.Used++
	l.Charged = w.Generation
	s.Backoff = max(s.Backoff, backoff(l.Used-1))
}

// Pardon gives back the restart that a failure was charged, which turns out to be the victim of a
// loss: a failure of w, that waits since, or of the generation before it while w has not run.
func Pardon(l *rendezvous.Ledger, w *rendezvous.World) bool {
	if l.Used == 0 || l.Charged != w.Generation && (l.Charged+1 != w.Generation || w.Master != nil) {
		return false
	}
	l.Used--
	l.Charged = 0
	return true
}

// backoff is 1, 2, 4, … 30 s for the first, second, … cause that has to wait; 0 for none.
func backoff(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(maxWait, time.Second<<min(n-1, 10))
}

func failed(f *rendezvous.Failure, message string) *rendezvous.Outcome {
	rank, local, code := f.Rank, f.LocalRank, f.Code
	o := &rendezvous.Outcome{Code: f.Status(), Source: "worker", Node: &f.Node, Why: rendezvous.RestartsUsed,
		Message: message, Failure: f}
	if f.Process.Name == "" {
		o.Rank, o.LocalRank = &rank, &local
	}
	if f.Signal == "" {
		o.ExitCode = &code
	} else {
		o.Signal = &f.Signal
	}
	return o
}

// CountLost counts reported losses in the books that are written with their events, so that none is
// counted twice, or reported and not counted. A member that is lost again and again is put into
// quarantine.
func CountLost(
	l rendezvous.Ledger, w *rendezvous.World, lost []verdict.Member, now time.Time,
) rendezvous.Ledger {
	l.Lost += len(lost)
	if w != nil {
		l.Nodes = recordLosses(l.Nodes, w, lost, now)
	}
	return l
}
