package status

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Origin says which user started the job, where, when and with which command.
type Origin struct {
	rendezvous.Origin
	Time Timestamp `json:"time"` // when the job was made, or its newest attempt
}

// abandonedAfter is how long a job must show no sign of a node to count as abandoned. Nodes that
// lost their registrations while the store was away register again well within it.
const abandonedAfter = 10 * time.Second

// abandoned reports whether the job has not ended, has no registered node, and has shown no sign of
// one for a while.
func (x *explainer) abandoned() bool {
	s := x.s
	if len(s.Nodes) > 0 || x.w != nil && x.w.Phase.Ended() {
		return false
	}
	newest := s.Job.Time
	for _, t := range []time.Time{s.Wish.Time, x.worldTime(), x.progressTime(), x.lastEvent()} {
		if t.After(newest) {
			newest = t
		}
	}
	return x.now.Sub(newest) > abandonedAfter
}

func (x *explainer) worldTime() time.Time {
	if x.s.World == nil {
		return time.Time{}
	}
	return x.s.World.Time
}

func (x *explainer) lastEvent() time.Time {
	if n := len(x.s.Events); n > 0 {
		return x.s.Events[n-1].Time
	}
	return time.Time{}
}

func (x *explainer) progressTime() time.Time {
	if x.s.Progress == nil {
		return time.Time{}
	}
	return x.s.Progress.Time
}

// Progress is stale if a running World has reported none for staleTimes the usual interval, and for
// at least staleLeast.
const (
	staleTimes = 10
	staleLeast = 30 * time.Second

	// after these, its rate is no longer the present one
	lateTimes = 3
	lateLeast = 5 * time.Second
)

// progress returns what the workers last reported, and its age. In a World without a report, only
// the time since its start counts towards staleness.
func (x *explainer) progress() *Progress {
	p := x.s.Progress
	if p == nil {
		return nil
	}
	st := &Progress{Step: p.Step, Loss: p.Loss, Samples: p.Samples,
		SamplesPerSecond: p.SamplesPerSecond, Done: p.Done, Time: Timestamp{p.Time}, Note: p.Note}
	if p.Left != nil {
		st.LeftSeconds = new(time.Duration(*p.Left).Truncate(time.Second).Seconds())
	}
	age := max(0, x.now.Sub(p.Time))
	st.AgeSeconds = age.Truncate(100 * time.Millisecond).Seconds()
	if x.w == nil || x.w.Phase != rendezvous.Running {
		return st
	}
	quiet := min(age, max(0, x.now.Sub(x.w.Time)))
	limit, late := staleLeast, staleLeast
	if p.Interval != nil {
		limit = max(limit, staleTimes*time.Duration(*p.Interval))
		late = max(lateLeast, lateTimes*time.Duration(*p.Interval))
	}
	st.Late = quiet > late
	if p.Generation == x.w.Generation {
		st.Stall, st.Slow = p.Stall, p.Slow
	}
	st.Stale = quiet > limit || st.Stall != nil
	return st
}

// stale is the sentence about stale progress.
func (p *Progress) stale() string {
	if p.Stall != nil {
		return p.Stall.String()
	}
	return fmt.Sprintf("no progress reported for %s", (time.Duration(p.AgeSeconds) * time.Second).
		Round(time.Second))
}
