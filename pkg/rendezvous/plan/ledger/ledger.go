// Package ledger keeps the ledger of a job: the rest of the restart budget, the back-off of a job
// without progress, and the nodes in quarantine. It is pure.
//
// # Quarantine
//
// A failure is charged to the node whose worker failed first. The failure of a victim, and a loss that
// is not a number, are charged to no node.
//
//   - A node that is charged twice in a row, without a step beyond that of the first failure, is no
//     candidate for 1, 2, 4 … 30 min. A node that was left out before is left out at its next failure.
//     The restarts that it used are given back.
//   - Where no restart is left, a node is left out that made no step, or used more than half of them.
//   - A member that came after the job had trained, and made no step since, is left out also where np
//     then allows no World, unless an older member failed with it. The others wait for another node.
//   - Any other node stays if np allows no World without it, or if as many nodes as the job has restarts
//     were left out since training last got further. Its failure then spends a restart.
//   - A member that is lost again within a minute after it came back is no candidate for 30 s, then
//     1, 2 … 30 min. Where there would be no World without it, it is taken at once.
//   - Ten minutes of generations with the node delete its record.
package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	healthy  = 10 * time.Second // so long a run is no churn
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
	LeftOut    bool                // the failure put its node into quarantine
	Spent      bool                // the failure spent a restart
	Pardoned   bool                // an earlier failure got its restart back
}

// Closing is the outcome of a generation, from which its ledger is settled.
type Closing struct {
	Failure *rendezvous.Failure
	// Dispensable: np allows a world without the node of the failure, and one can be planned now.
	Dispensable bool
	Lost        bool          // lost nodes explain the end
	Ran         time.Duration // 0: it never ran
	Reported    bool          // workers reported a step
	Step        *int64        // the last step that is known, reported or saved; nil: none is
	Committed   bool          // a save of the generation was committed
	Now         time.Time
}

// trained reports whether the generation of w made a step. Where no step was ever reported in the
// attempt, so long a run stands for one.
func (e Closing) trained(w *rendezvous.World) bool {
	var from *int64
	if w.Resume != nil {
		from = w.Resume.Step
	}
	return beyond(e.Step, from) || !w.Ledger.Reports && !e.Reported && e.Ran >= trainedAfter
}

// progress reports whether the generation is no sign of a job that only starts and ends.
func (e Closing) progress() bool { return e.Reported || e.Committed || e.Ran >= healthy }

// beyond reports whether step is known, and later than from.
func beyond(step, from *int64) bool { return step != nil && (from == nil || *step > *from) }

// Settle settles the ledger after the generation of w. Losses are not counted here, but where they
// are reported (CountLost).
func Settle(w *rendezvous.World, rules rendezvous.Rules, e Closing) Settled {
	s := Settled{Ledger: w.Ledger}
	l := &s.Ledger
	l.Closed = w.Generation
	if e.Ran > 0 || w.Master != nil { // an agent that joined later did not see it run
		l.Ran++
	}
	l.Reports = l.Reports || e.Reported
	l.Nodes = forgive(l.Nodes, w, e.Ran)
	if e.Ran >= rendezvous.RefillAfter {
		refill(l)
	}
	if beyond(e.Step, l.LeftOutAt) || !l.Reports && e.Ran >= trainedAfter {
		l.LeftOut, l.LeftOutAt = 0, nil
	}
	if e.trained(w) {
		l.Unproven = nil
	}
	s.Pardoned = e.Lost && Pardon(l, w)
	if e.Failure != nil || e.Lost {
		l.Churn++
	}
	if e.progress() {
		l.Churn, l.NoProgress = 0, 0
	}
	s.Backoff = backoff(l.Churn - maxChurn)
	before := l.Script
	l.Script = e.scriptError(w)
	switch f := e.Failure; {
	case f == nil:
		return s
	case e.Lost || f.AsksForRestart():
		s.Collateral = e.Lost
		s.spendNothing(e)
	case l.Script != "" && alike(f) != "":
		s.failScript(f, fmt.Sprintf("on %s and %s", f.Node, alike(f)))
	default:
		s.charge(w, rules, e)
		if l.Script != "" && l.Script == before && !s.LeftOut {
			s.failScript(f, "twice")
		}
	}
	l.LastFailure = e.Failure.String()
	return s
}

// scriptError is the script error that ended the generation of w before a step was made; "": none did.
func (e Closing) scriptError(w *rendezvous.World) string {
	if e.Failure == nil || e.Lost || e.trained(w) {
		return ""
	}
	return e.Failure.ScriptError()
}

// alike returns another node on which the script failed with the error of f; "": there is none.
func alike(f *rendezvous.Failure) string {
	for _, o := range f.Others {
		if o.Same && o.Node != f.Node {
			return o.Node
		}
	}
	return ""
}

// failScript ends the job: its script fails the same way each time.
func (s *Settled) failScript(f *rendezvous.Failure, where string) {
	s.Fail, s.Spent, s.Backoff = failed(f, fmt.Sprintf("the script fails alike %s, before it makes a step: "+
		"mend it, and run it again", where)), false, 0
	s.Fail.Why = rendezvous.ScriptFails
}

// refill gives the restart budget back.
func refill(l *rendezvous.Ledger) {
	l.Used = 0
	l.Nodes = slices.Clone(l.Nodes)
	for i := range l.Nodes {
		l.Nodes[i].Used = 0
	}
}

// spendNothing counts a failure that spends no restart. After too many of them in a row without
// progress the job fails.
func (s *Settled) spendNothing(e Closing) {
	l, f := &s.Ledger, e.Failure
	if !e.progress() {
		l.NoProgress++
	}
	if l.NoProgress >= maxIdle {
		s.Fail = &rendezvous.Outcome{Code: ExitNever, Source: "elastic", Node: &f.Node,
			Why: rendezvous.NoProgress,
			Message: fmt.Sprintf(
				"%d generations in a row ended without a commit, reported progress or %s of running; "+
					"the last: %s", l.NoProgress, healthy, f)}
	}
}

// charge charges a failure to its node, and leaves the node out or spends a restart.
func (s *Settled) charge(w *rendezvous.World, rules rendezvous.Rules, e Closing) {
	l, f := &s.Ledger, e.Failure
	l.NoProgress = 0
	of := f.OfNode()
	if of {
		l.Nodes = chargeNode(w, l, e)
		if (e.Dispensable || unproven(*l, f)) && leavesOut(w, *l, rules, e) {
			s.LeftOut = true
			leaveOut(l, e)
			return
		}
	}
	if l.Used >= rules.MaxRestarts {
		s.Fail = failed(f, usedText(*l, rules))
		return
	}
	s.Spent = true
	l.Used++
	l.Charged = w.Generation
	if of {
		l.Nodes = EditRecord(l.Nodes, f.Node, func(r *rendezvous.NodeRecord) { r.Used++ })
	}
	s.Backoff = max(s.Backoff, backoff(l.Used-1))
}

// usedText says that the restarts are used, and by which nodes.
func usedText(l rendezvous.Ledger, rules rendezvous.Rules) string {
	text := fmt.Sprintf("restarts used (%d of %d)", l.Used, rules.MaxRestarts)
	var by []string
	for _, r := range l.Nodes {
		if r.Used > 0 {
			by = append(by, fmt.Sprintf("%d by %s", r.Used, r.Node))
		}
	}
	if len(by) > 0 {
		text += ": " + phrase.List(by)
	}
	return text
}

// Pardon gives back the restart that a failure spent, because a loss explains the failure. The
// failure is one of w, or of the generation before w if w has not run.
func Pardon(l *rendezvous.Ledger, w *rendezvous.World) bool {
	if l.Used == 0 || l.Charged != w.Generation && (l.Charged+1 != w.Generation || w.Master != nil) {
		return false
	}
	l.Used--
	l.Nodes = pardonNode(l.Nodes, l.Charged)
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
