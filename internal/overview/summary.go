package overview

import (
	"cmp"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
)

// Level is how much attention a job needs.
type Level string

const (
	Bad  Level = "bad"  // it failed, or has no node
	Warn Level = "warn" // it waits for nodes, or something about it is at risk
	Busy Level = "busy" // it changes: starting, stopping
	Good Level = "good" // it trains
	Over Level = "over" // it ended as planned, or long ago
)

// rank orders levels, the worst first.
func (l Level) rank() int { return slices.Index([]Level{Bad, Warn, Busy, Good, Over}, l) }

// Summary is one row of a list of jobs.
type Summary struct {
	Job        schema.Job        `json:"job"`
	State      string            `json:"state"` // as in status, or abandoned
	Level      Level             `json:"level"`
	Why        string            `json:"why"`
	Notes      []string          `json:"notes"` // what else needs attention
	Since      Millis            `json:"since"`
	Generation schema.Generation `json:"generation"`
	WorldSize  int               `json:"world_size"`
	Present    int               `json:"present"`
	NP         int               `json:"np"`
	Step       *int64            `json:"step"`
	Loss       *float64          `json:"loss"`
	Rate       *float64          `json:"samples_per_second"`
	Done       *float64          `json:"done"`
	Left       *float64          `json:"left_seconds"`
	Checkpoint *Saved            `json:"checkpoint"` // null: none yet
	Restarts   status.Restarts   `json:"restarts"`
	Kept       *float64          `json:"kept"` // share of the time in steps that count; null: not known
	Owner      string            `json:"owner"`
	Command    string            `json:"command"` // what to type next
}

// Saved is the newest checkpoint of a summary.
type Saved struct {
	Number uint64 `json:"number"`
	Step   *int64 `json:"step"`
	Time   Millis `json:"time"`
	Copies int    `json:"copies"`
	Wanted int    `json:"wanted"`
}

// Summarise returns the row of one job.
func Summarise(src Source) Summary {
	return summaryOf(Status(src), Goodput(src.Snapshot, src.Now), src.Now)
}

// Unreadable returns the row of a job whose records cannot be read.
func Unreadable(job schema.Job, err error) Summary {
	return Summary{Job: job, State: "unreadable", Level: Bad, Why: err.Error(), Notes: []string{},
		Command: "elastic status " + string(job)}
}

// WorstFirst sorts the jobs that need attention to the front.
func WorstFirst(all []Summary) {
	slices.SortStableFunc(all, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Level.rank(), b.Level.rank()), cmp.Compare(a.Job, b.Job))
	})
}

func summaryOf(st status.Status, used goodput.Report, now time.Time) Summary {
	sum := Summary{Job: st.Job, State: State(st), Why: st.Why, Notes: notes(st),
		Since: millis(st.Since.Time), Generation: st.Generation, WorldSize: st.WorldSize,
		Present: st.Wish.Present, NP: st.Wish.NP, Restarts: st.Restarts, Kept: kept(used),
		Command: command(st)}
	sum.Level = levelOf(st, sum.Notes, now)
	if p := st.Progress; p != nil {
		sum.Step, sum.Loss, sum.Done = p.Step, p.Loss, p.Done
		if !p.Late && !p.Stale && st.State == status.StateRunning {
			sum.Rate, sum.Left = p.SamplesPerSecond, p.LeftSeconds
		}
	}
	if c := st.Checkpoint; c != nil {
		sum.Checkpoint = &Saved{Number: uint64(c.Number), Step: c.Step, Time: millis(c.Time.Time),
			Copies: c.Copies, Wanted: c.Replicas}
	}
	if o := st.Origin; o != nil {
		sum.Owner = o.Owner + "@" + o.Host
	}
	return sum
}

// State is the state of a job in one word.
func State(st status.Status) string {
	if st.Abandoned {
		return "abandoned"
	}
	return string(st.State)
}

// kept returns the share of the time that went into steps that count.
func kept(r goodput.Report) *float64 {
	if r.Elapsed <= 0 {
		return nil
	}
	return new((r.Seconds[goodput.Kept] + r.Seconds[goodput.Untold]) / r.Elapsed)
}

// oldFailure is how long a failed job is among the worst.
const oldFailure = 24 * time.Hour

func levelOf(st status.Status, notes []string, now time.Time) Level {
	switch {
	case string(st.State) == string(rendezvous.Failed) && now.Sub(st.Since.Time) < oldFailure:
		return Bad
	case st.Ended():
		return Over
	case st.Abandoned:
		return Bad
	case st.State == status.StateWaiting || len(notes) > 0:
		return Warn
	case st.State == status.StateRunning:
		return Good
	}
	return Busy
}

// notes returns what needs attention although the job trains, in a few words each.
func notes(st status.Status) []string {
	all := []string{}
	if st.Ended() {
		return all
	}
	if p := st.Progress; p != nil && p.Stale && st.State == status.StateRunning {
		all = append(all, "no progress")
	}
	if st.Untaken != nil {
		all = append(all, "save not taken")
	}
	if c := st.Checkpoint; c != nil && c.Copies < c.Replicas && c.Copies < max(1, st.Wish.Present) {
		all = append(all, "too few copies")
	}
	for _, state := range []status.NodeState{status.NodeSuspect, status.NodeQuarantined} {
		if slices.ContainsFunc(st.Nodes, func(n status.Node) bool { return n.State == state }) {
			all = append(all, "a node is "+string(state))
		}
	}
	return all
}

// command returns the command that helps most now.
func command(st status.Status) string {
	job := string(st.Job)
	kept := slices.IndexFunc(st.Nodes,
		func(n status.Node) bool { return n.State == status.NodeQuarantined })
	switch {
	case string(st.State) == string(rendezvous.Failed):
		return "elastic logs " + job + " --first-failure"
	case st.Abandoned:
		return "elastic stop " + job
	case st.Progress != nil && st.Progress.Stale && st.State == status.StateRunning:
		return "elastic logs " + job + " --tail=20"
	case st.State == status.StateWaiting && kept >= 0:
		return "elastic admit " + st.Nodes[kept].Node + " --job-id=" + job
	case st.State == status.StateRunning && st.Untaken == nil:
		return "elastic logs -f " + job
	case st.Ended():
		return "elastic goodput " + job
	}
	return "elastic explain " + job
}
