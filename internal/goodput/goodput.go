// Package goodput computes how a job used its time: for steps that count, for steps that were
// repeated, and for everything else. It is pure: it reads only events.
package goodput

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// Bucket is one use of time.
type Bucket string

const (
	Kept      Bucket = "kept"      // steps that count
	Redone    Bucket = "redone"    // steps that were lost and repeated
	Untold    Bucket = "untold"    // workers ran, but the job reports no steps
	NoSteps   Bucket = "no_steps"  // workers ran before their first step ended, if that is reported
	Hung      Bucket = "hung"      // workers ran without any report
	Detection Bucket = "detection" // from the first sign of a loss to the decision
	Barrier   Bucket = "barrier"   // from the proposal of a world to its start
	Saving    Bucket = "saving"    // a planned change: the last save
	Backoff   Bucket = "backoff"   // after a failure
	Waiting   Bucket = "waiting"   // for nodes
)

// Buckets returns all buckets in the order of the output.
func Buckets() []Bucket {
	return []Bucket{Kept, Untold, Redone, NoSteps, Hung, Detection, Barrier, Saving, Backoff, Waiting}
}

// Words describes the use of the time in a bucket.
func Words(b Bucket) string {
	switch b {
	case Kept:
		return "steps that count"
	case Redone:
		return "steps made again"
	case Untold:
		return "training, steps not reported"
	case NoSteps:
		return "before a first step"
	case Hung:
		return "hung"
	case Detection:
		return "finding a loss"
	case Barrier:
		return "changing the world"
	case Saving:
		return "saving before a change"
	case Backoff:
		return "back-off"
	}
	return "waiting for nodes"
}

// Report is the account of a job.
type Report struct {
	Schema      string             `json:"schema"`
	Job         string             `json:"job"`
	Elapsed     float64            `json:"elapsed_seconds"`
	Seconds     map[Bucket]float64 `json:"seconds"`
	Generations []Generation       `json:"generations"`
}

// Generation is the result of one generation.
type Generation struct {
	Generation int64   `json:"generation"`
	WorldSize  int64   `json:"world_size"`
	From       *int64  `json:"from_step"` // null: unknown
	To         *int64  `json:"to_step"`   // the last reported step
	Lost       int64   `json:"lost_steps"`
	Seconds    float64 `json:"seconds"`           // in which its workers ran
	Unsaved    string  `json:"unsaved,omitempty"` // what its workers did not save when they were asked to

	HungSince   time.Time `json:"-"` // until its end; zero: it did not hang
	RedoneSince time.Time `json:"-"` // until its end or HungSince; zero: no step was made again
}

// Steps returns the number of steps; 0 if it is unknown.
func (g Generation) Steps() int64 {
	if g.From == nil || g.To == nil {
		return 0
	}
	return max(0, *g.To-*g.From)
}

// LastProgress says when workers last reported progress, how often they usually do, and when their
// first step ended.
type LastProgress struct {
	At     time.Time
	Every  time.Duration // 0: unknown
	First  *time.Time    // nil: unknown
	Before *time.Time    // end of the step before First, in an older generation; nil: unknown
}

// Now is the current state of a running job, which is not in its events yet.
type Now struct {
	Time         time.Time
	Step         *int64        // of the running generation
	LastProgress *LastProgress // of the running generation
}

// Of computes the report from the events of a job, oldest first. Time between an attempt that ended
// and the next one is not counted.
func Of(job string, events []history.Event, now Now) Report {
	a := account{in: Waiting, seconds: map[Bucket]float64{}}
	if len(events) > 0 {
		a.since = events[0].Time
	}
	for _, e := range events {
		a.take(e)
	}
	if len(events) > 0 && !a.ended && now.Time.After(a.since) {
		a.endLife(now.Time, now.Step, now.LastProgress)
		a.switchTo(a.in, now.Time)
	}
	return a.report(job)
}

func (a *account) report(job string) Report {
	r := Report{Schema: "elastic.goodput/1", Job: job, Seconds: map[Bucket]float64{},
		Generations: []Generation{}}
	for _, b := range Buckets() {
		r.Seconds[b] = a.seconds[b]
	}
	tells := slices.ContainsFunc(a.lives, func(l life) bool { return l.To != nil })
	for i := range a.lives {
		l := &a.lives[i]
		part := l.untold()
		if tells {
			part = l.split()
		}
		for b, s := range part {
			r.Seconds[b] += s
		}
		l.place(part)
		r.Generations = append(r.Generations, l.Generation)
	}
	for _, s := range r.Seconds {
		r.Elapsed += s
	}
	return r
}

// lastProgress returns the newest progress of the previous generation from an event; nil: none.
func lastProgress(e history.Event) *LastProgress {
	at := history.Field[*time.Time](&e, "last_told")
	if at == nil {
		return nil
	}
	every := history.Field[float64](&e, "told_every")
	return &LastProgress{At: *at, Every: time.Duration(every * float64(time.Second)),
		First: history.Field[*time.Time](&e, "first_step_at"), Before: history.Field[*time.Time](&e, "step_before_at")}
}
