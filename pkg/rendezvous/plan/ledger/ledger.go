// Package ledger keeps the ledger of a job: the rest of the restart budget, the back-off of a job
// without progress, and the nodes in quarantine. It is pure.
package ledger

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	healthy  = 10 * time.Second // so long a run counts as progress
	maxIdle  = 5                // failures in a row, uncharged and without progress: the job then fails
	maxChurn = 5                // after so many generations without progress each further one waits
	maxWait  = 30 * time.Second // of back-off
	// ExitNever is the exit status of a job that another restart does not repair.
	ExitNever = 93
)

// Settled is the ledger after a generation, and what follows from it.
type Settled struct {
	Ledger     rendezvous.Ledger
	Backoff    time.Duration
	Fail       *rendezvous.Outcome // the attempt is over
	Collateral bool                // the loss of a node caused the failure
	Newcomer   bool                // the failure put a node into quarantine
	Spent      bool                // the failure spent a restart
	Pardoned   bool                // an earlier failure got its restart back
}

// Closing is the outcome of a generation, from which its ledger is settled.
type Closing struct {
	Failure    *rendezvous.Failure
	Stranger   bool              // the node of the failure runs another program than the job
	Program    string            // digest of the program of that node
	Lost       bool              // lost nodes explain the end
	Ran        time.Duration     // 0: it never ran
	Progressed bool              // workers reported progress
	Head       checkpoint.Number // the newest commit
	Now        time.Time

	progress bool // workers reported progress, a checkpoint was committed, or it ran long enough
}

// Settle settles the ledger after the generation of w. Losses are not counted here, but where they
// are reported (CountLost).
func Settle(w *rendezvous.World, rules rendezvous.Rules, e Closing) Settled {
	s := Settled{Ledger: w.Ledger}
	l := &s.Ledger
	l.Closed = w.Generation
	if e.Ran > 0 || w.Master != nil { // an agent that joined later did not see it run
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
			return // the other members have shown that the job can run, and go on
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

// Pardon gives back the restart that a failure spent, because a loss explains the failure. The
// failure is one of w, or of the generation before w if w has not run.
func Pardon(l *rendezvous.Ledger, w *rendezvous.World) bool {
	if l.Used == 0 || l.Charged != w.Generation && (l.Charged+1 != w.Generation || w.Master != nil) {
		return false
	}
	l.Used--
	l.Charged = 0
	return true
}

// backoff returns 1, 2, 4, … 30 s for n = 1, 2, 3, …, and 0 for less.
func backoff(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(maxWait, time.Second<<min(n-1, 10))
}

// failed returns the outcome of a job that fails because its restarts are used.
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

// CountLost counts lost members in the ledger. The transaction that writes the ledger also writes
// the events of the losses, so each loss is counted and reported once. A member that is lost often
// is put into quarantine.
func CountLost(
	l rendezvous.Ledger, w *rendezvous.World, lost []verdict.Member, now time.Time,
) rendezvous.Ledger {
	l.Lost += len(lost)
	if w != nil {
		l.Nodes = recordLosses(l.Nodes, w, lost, now)
	}
	return l
}
