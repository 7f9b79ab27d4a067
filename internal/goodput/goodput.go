// Package goodput says where the time of a job went: into steps that count, into steps that were made
// again, and into everything else. It is pure: it reads events, and nothing else.
package goodput

import (
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// Bucket is one thing that time goes into.
type Bucket string

const (
	Kept      Bucket = "kept"      // steps that count
	Redone    Bucket = "redone"    // steps that were lost and made again
	NoSteps   Bucket = "no_steps"  // workers ran and told no step: they started, or they tell none
	Detection Bucket = "detection" // from the first sign of a loss to the decision
	Barrier   Bucket = "barrier"   // from the proposal of a world to its start
	Saving    Bucket = "saving"    // a planned change: the last save
	Backoff   Bucket = "backoff"   // after a failure
	Waiting   Bucket = "waiting"   // for nodes
)

// Buckets returns all of them, in the order in which they are shown.
func Buckets() []Bucket {
	return []Bucket{Kept, Redone, NoSteps, Detection, Barrier, Saving, Backoff, Waiting}
}

// Report is the account of a job.
type Report struct {
	Schema      string             `json:"schema"`
	Job         string             `json:"job"`
	Elapsed     float64            `json:"elapsed_seconds"`
	Seconds     map[Bucket]float64 `json:"seconds"`
	Generations []Generation       `json:"generations"`
}

// Generation is what one of them brought.
type Generation struct {
	Generation int64   `json:"generation"`
	WorldSize  int64   `json:"world_size"`
	From       *int64  `json:"from_step"` // null: it is not known
	To         *int64  `json:"to_step"`   // the last that was told
	Lost       int64   `json:"lost_steps"`
	Seconds    float64 `json:"seconds"` // that its workers ran
}

// Steps is the number of steps that were made, 0 if it is not known.
func (g Generation) Steps() int64 {
	if g.From == nil || g.To == nil {
		return 0
	}
	return max(0, *g.To-*g.From)
}

// Now is what the events of a job that goes on do not say yet.
type Now struct {
	Time time.Time
	Step *int64 // of the running generation
}

// account is a report that is being written: time goes into one bucket after the other.
type account struct {
	Report
	in      Bucket
	since   time.Time
	running *Generation // nil: no workers run
}

// Of accounts for the events of a job, oldest first.
func Of(job string, events []history.Event, now Now) Report {
	a := account{in: Waiting, Report: Report{Schema: "elastic.goodput/1", Job: job,
		Seconds: map[Bucket]float64{}, Generations: []Generation{}}}
	for _, b := range Buckets() {
		a.Seconds[b] = 0
	}
	if len(events) == 0 {
		return a.Report
	}
	a.since = events[0].Time
	for _, e := range events {
		a.take(e)
	}
	if last := events[len(events)-1]; !last.Kind.Ends() && now.Time.After(last.Time) {
		a.ends(now.Time, now.Step)
		a.turn(a.in, now.Time)
	}
	for _, s := range a.Seconds {
		a.Elapsed += s
	}
	return a.Report
}

func (a *account) take(e history.Event) {
	switch e.Kind {
	case history.NodeLost:
		a.lost(e)
	case history.WaitEntered:
		a.turn(bucketOf(e.Fields["why_code"]), e.Time)
	case history.WorldProposed:
		a.ends(e.Time, whole(e.Fields["last_step"]))
		a.turn(Barrier, e.Time)
		from := whole(e.Fields["resume_step"])
		a.loses(from)
		size, _ := e.Fields["world_size"].(float64)
		a.Generations = append(a.Generations, Generation{Generation: int64(e.Generation), WorldSize: int64(size), From: from})
	case history.WorldRunning:
		a.turn(Kept, e.Time)
		if n := len(a.Generations); n > 0 {
			a.running = &a.Generations[n-1]
		}
	case history.JobDone, history.JobFailed, history.JobStopped:
		a.ends(e.Time, whole(e.Fields["last_step"]))
		a.turn(Waiting, e.Time)
	case history.JobCreated:
		a.since = e.Time
	}
}

// turn puts the time since the last turn where it belongs, and begins another bucket. What becomes of
// the time of running workers is known when their last step is.
func (a *account) turn(to Bucket, at time.Time) {
	passed := max(0, at.Sub(a.since).Seconds())
	if a.in == Kept && a.running != nil {
		a.running.Seconds += passed
	} else {
		a.Seconds[a.in] += passed
	}
	a.in, a.since = to, at
}

// ends closes the generation whose workers ran, at its last step.
func (a *account) ends(at time.Time, step *int64) {
	g := a.running
	if g == nil {
		return
	}
	if a.in == Kept {
		a.turn(Barrier, at)
	}
	g.To, a.running = step, nil
	if g.Steps() > 0 {
		a.Seconds[Kept] += g.Seconds
	} else {
		a.Seconds[NoSteps] += g.Seconds
	}
}

// lost moves the time from the first sign of a loss to its decision out of training.
func (a *account) lost(e history.Event) {
	after, ok := e.Fields["after_ms"].(float64)
	if !ok || a.in != Kept {
		return
	}
	sign := e.Time.Add(-time.Duration(after * float64(time.Millisecond)))
	if sign.Before(a.since) {
		sign = a.since
	}
	a.turn(Detection, sign)
}

// loses counts the steps of the generation before that the next one makes again.
func (a *account) loses(from *int64) {
	n := len(a.Generations)
	if n == 0 || from == nil {
		return
	}
	g := &a.Generations[n-1]
	steps := g.Steps()
	if g.To == nil || steps == 0 || *g.To <= *from {
		return
	}
	g.Lost = min(*g.To-*from, steps)
	again := g.Seconds * float64(g.Lost) / float64(steps)
	a.Seconds[Kept] -= again
	a.Seconds[Redone] += again
}

func bucketOf(why any) Bucket {
	switch why {
	case "saving", "draining":
		return Saving
	case "backoff":
		return Backoff
	}
	return Waiting
}

// whole is a number out of JSON; nil if it is none.
func whole(v any) *int64 {
	switch n := v.(type) {
	case float64:
		i := int64(n)
		return &i
	case *int64:
		return n
	}
	return nil
}
