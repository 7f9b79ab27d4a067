package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A job that has not ended is abandoned if no node is registered and it has shown no sign of one
// for ten seconds.
func TestAbandoned(t *testing.T) {
	later := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		s    *jobSnapshot
		now  time.Time
		want bool
	}{
		"just made":    {aJob(2), noon.Add(time.Second), false},
		"no node came": {aJob(2), later, true},
		"a node waits": {aJob(2).here("a"), later, false},
		"all left":     {aJob(1).here("a").world(rendezvous.Running, "a").gone("a"), later, true},
		"the last left now": {aJob(1).here("a").world(rendezvous.Running, "a").lost("a", "agent-gone").
			heard(later), later, false},
		"progress is reported": {aJob(1).world(rendezvous.Running, "a").progress(later, time.Second),
			later.Add(time.Second), false},
		"asked a moment ago": {aJob(1).with(func(s *jobSnapshot) { s.Wish.Time = later }),
			later.Add(time.Second), false},
		"done": {aJob(1).world(rendezvous.Done, "a"), later, false},
		"failed, now reopened": {aJob(1).world(rendezvous.Failed, "a").
			with(func(s *jobSnapshot) { s.Job.Attempt = 2 }), later, true},
	} {
		if got := status.Explain(&c.s.Snapshot, c.now).Abandoned; got != c.want {
			t.Errorf("%s: abandoned is %v, want %v", name, got, c.want)
		}
	}
}

// heard puts the newest event at that time.
func (s *jobSnapshot) heard(at time.Time) *jobSnapshot {
	s.Events = append(s.Events, history.Event{Kind: history.NodeLeft, Node: "a", Time: at, Rev: 99})
	return s
}

// progress is reported at that time, and usually so often.
func (s *jobSnapshot) progress(at time.Time, every time.Duration) *jobSnapshot {
	s.Progress = &rendezvous.Progress{Step: new(int64(7)), Time: at}
	if every > 0 {
		s.Progress.Interval = new(rendezvous.Seconds(every))
	}
	return s
}

// Progress is stale if a running World has reported none for ten usual intervals, and for at least
// half a minute. Before its first report, the time since its start counts.
func TestStaleProgress(t *testing.T) {
	ran := func() *jobSnapshot { return aJob(1).here("a").world(rendezvous.Running, "a") }
	for name, c := range map[string]struct {
		s    *jobSnapshot
		now  time.Duration // since noon, when the world began to run
		want bool
	}{
		"fresh": {ran().progress(noon.Add(time.Minute), time.Second), 65 * time.Second, false},
		"old":   {ran().progress(noon.Add(time.Minute), time.Second), 95 * time.Second, true},
		"usually slow": {ran().progress(noon.Add(time.Minute), 10*time.Second), 155 * time.Second,
			false},
		"slow, and older than that": {ran().progress(noon.Add(time.Minute), 10*time.Second),
			165 * time.Second, true},
		"usual interval not known": {ran().progress(noon, 0), 31 * time.Second, true},
		"of the generation before": {ran().progress(noon.Add(-time.Hour), time.Second), 20 * time.Second,
			false},
		"none since this one started": {ran().progress(noon.Add(-time.Hour), time.Second), 31 * time.Second,
			true},
		"a world that waits": {aJob(1).here("a").world(rendezvous.Forming, "a").progress(noon, time.Second),
			time.Hour, false},
	} {
		st := status.Explain(&c.s.Snapshot, noon.Add(c.now))
		if st.Progress.Stale != c.want {
			t.Errorf("%s: stale is %v at an age of %vs, want %v",
				name, st.Progress.Stale, st.Progress.AgeSeconds, c.want)
		}
	}
	for _, c := range []struct {
		every, age time.Duration
		want       bool
	}{
		{time.Second, 4 * time.Second, false}, {time.Second, 6 * time.Second, true},
		{10 * time.Second, 29 * time.Second, false}, {10 * time.Second, 31 * time.Second, true},
		{0, 29 * time.Second, false},
	} {
		st := status.Explain(&ran().progress(noon, c.every).Snapshot, noon.Add(c.age))
		if st.Progress.Late != c.want {
			t.Errorf("%s after a report, one each %s: late is %v", c.age, c.every, st.Progress.Late)
		}
	}
	st := status.Explain(&ran().progress(noon, time.Second).Snapshot, noon.Add(45*time.Second))
	if want := "generation 1 runs: world size 1; no progress reported for 45s"; st.Why != want {
		t.Errorf("why is %q, want %q", st.Why, want)
	}
	if want := "elastic explain x --stacks asks all ranks what they do"; st.Next == nil || *st.Next != want {
		t.Errorf("next is %v, want %q", st.Next, want)
	}
	stalled := ran().progress(noon, time.Second)
	stalled.Progress.Generation = 1
	stalled.Progress.Stall = &history.Stall{Quiet: 40, Known: true, Rank: 2, Node: "b", Reason: "it sleeps"}
	st = status.Explain(&stalled.Snapshot, noon.Add(45*time.Second))
	if want := "generation 1 runs: world size 1; no step for 40s: rank 2 on b differs: it " +
		"sleeps"; st.Why != want {
		t.Errorf("why is %q, want %q", st.Why, want)
	}
}

func TestOriginOfTheStatus(t *testing.T) {
	s := aJob(1)
	s.Job.Origin = rendezvous.NewOrigin("ada", "lab1", []string{"python", "train.py"})
	got := object(t, status.Explain(&s.Snapshot, noon))["origin"].(map[string]any)
	if got["owner"] != "ada" || got["host"] != "lab1" || got["time"] != "2026-11-21T12:03:11.042Z" {
		t.Errorf("origin is %v", got)
	}
}
