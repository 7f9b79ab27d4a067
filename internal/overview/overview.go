// Package overview derives everything that users see of jobs: their state, timeline, generations,
// checkpoints and holders, failures, and the use of time. The commands, `elastic top` and the page
// show its values, so they cannot disagree. It is pure: it reads snapshots and events.
package overview

import (
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Source is what an overview of one job is derived from.
type Source struct {
	Snapshot *rendezvous.Snapshot // whole, with its events, of a job that exists
	Now      time.Time
	Server   *status.Server // nil: not shown
	Curve    progress.Curve // empty: not shown
}

// Job is everything that is shown of one job.
type Job struct {
	Schema      string                `json:"schema"`
	Summary     Summary               `json:"summary"`
	Status      status.Status         `json:"status"`
	Account     []string              `json:"account"` // the status at length, with reasons
	Timeline    Timeline              `json:"timeline"`
	Checkpoints []Checkpoint          `json:"checkpoints"` // newest first
	Goodput     goodput.Report        `json:"goodput"`
	Failures    []Failure             `json:"failures"` // newest first
	Curve       []progress.CurvePoint `json:"curve"`
	Events      []history.Event       `json:"events"` // commits in a row are one event
	Now         Millis                `json:"now"`
}

// Millis is a time in milliseconds since 1970, for charts; 0: unknown, or not yet.
type Millis int64

func millis(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// mostEvents bounds the list of events of an overview. All of them are in `elastic events`.
const mostEvents = 300

// Of derives the overview of one job.
func Of(src Source) Job {
	s := src.Snapshot
	st := Status(src)
	report := Goodput(s, src.Now)
	events := FoldCommits(s.Events)
	events = append([]history.Event{}, events[max(0, len(events)-mostEvents):]...)
	return Job{Schema: "elastic.overview/1", Status: st, Account: status.Account(s, st),
		Summary: summaryOf(st, report, src.Now), Timeline: timelineOf(s, st, report, src.Now),
		Checkpoints: Checkpoints(s), Goodput: report, Failures: failuresOf(s.Events),
		Curve: curveOf(src), Events: events, Now: millis(src.Now)}
}

// Status explains the job of src.
func Status(src Source) status.Status {
	st := status.Explain(src.Snapshot, src.Now)
	st.Server = src.Server
	return st
}

// Goodput returns where the time of a job went until now.
func Goodput(s *rendezvous.Snapshot, at time.Time) goodput.Report {
	now := goodput.Now{Time: at}
	if p, w := s.Progress, s.World; p != nil && w != nil && p.Generation == w.Generation {
		now.Step = p.Step
		now.LastProgress = &goodput.LastProgress{At: p.Time, First: p.First, Before: p.Before}
		if p.Interval != nil {
			now.LastProgress.Every = time.Duration(*p.Interval)
		}
	}
	return goodput.Of(string(s.Job.Name), s.Events, now)
}

// curveOf returns the progress over the life of the job, with the newest report.
func curveOf(src Source) []progress.CurvePoint {
	points := append([]progress.CurvePoint{}, src.Curve.Points...)
	if p := src.Snapshot.Progress; p != nil {
		now := progress.PointOf(*p)
		if n := len(points); n == 0 || points[n-1].At < now.At {
			points = append(points, now)
		}
	}
	return points
}
