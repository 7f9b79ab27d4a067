package goodput_test

import (
	"math"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/schema"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(
	second float64, kind history.Kind, generation schema.Generation, fields history.Fields,
) history.Event {
	return history.Event{Time: noon.Add(time.Duration(second * float64(time.Second))), Kind: kind,
		Generation: generation, Fields: fields}
}

func TestAccount(t *testing.T) {
	events := []history.Event{
		at(0, history.JobCreated, 0, nil),
		at(5, history.WorldProposed, 1,
			history.Fields{"world_size": 2., "resume_step": 0., "last_step": nil}),
		at(6, history.WorldRunning, 1, nil),
		// A node is lost at 106; it is decided at 108. 100 of 500 steps were not committed.
		at(108, history.NodeLost, 1, history.Fields{"after_ms": 2000.}),
		at(108, history.WaitEntered, 1, history.Fields{"why_code": "nodes-missing"}),
		at(138, history.WorldProposed, 2,
			history.Fields{"world_size": 2., "resume_step": 400., "last_step": 500.}),
		at(140, history.WorldRunning, 2, nil),
		// A planned change saves everything.
		at(240, history.WaitEntered, 2, history.Fields{"why_code": "saving"}),
		at(243, history.WorldProposed, 3,
			history.Fields{"world_size": 3., "resume_step": 900., "last_step": 900.}),
		at(244, history.WorldRunning, 3, nil),
		// A worker fails before its first step, and is restarted after a back-off.
		at(250, history.WaitEntered, 3, history.Fields{"why_code": "backoff"}),
		at(251, history.WorldProposed, 4,
			history.Fields{"world_size": 3., "resume_step": 900., "last_step": 900.}),
		at(252, history.WorldRunning, 4, nil),
		at(352, history.JobDone, 4, history.Fields{"last_step": 1500.}),
	}
	r := goodput.Of("x", events, goodput.Now{Time: noon.Add(time.Hour)})
	want := map[goodput.Bucket]float64{goodput.Kept: 80 + 100 + 100, goodput.Redone: 20, goodput.NoSteps: 6,
		goodput.Detection: 2,
		goodput.Barrier:   1 + 2 + 1 + 1, goodput.Saving: 3, goodput.Backoff: 1, goodput.Waiting: 5 + 30}
	total := 0.
	for _, b := range goodput.Buckets() {
		total += want[b]
		if math.Abs(r.Seconds[b]-want[b]) > 1e-6 {
			t.Errorf("%s: %.3f s, want %.3f", b, r.Seconds[b], want[b])
		}
	}
	if math.Abs(r.Elapsed-total) > 1e-6 || math.Abs(total-352) > 1e-6 {
		t.Errorf("elapsed %.3f s, the buckets have %.3f", r.Elapsed, total)
	}
	if g := r.Generations; len(g) != 4 || g[0].Lost != 100 || g[0].Steps() != 500 || g[1].Lost != 0 ||
		g[2].Steps() != 0 || g[3].Steps() != 600 {
		t.Errorf("generations %+v", g)
	}
}

// The step in which workers that stay are broken off is made again: what the next generation tells of the
// end of the step before it ends the time that counts, also where a world between never ran.
func TestAStepThatIsBrokenOff(t *testing.T) {
	began := func(before float64) []history.Event {
		reported := func(first float64) history.Fields {
			return history.Fields{"last_step": 200., "last_told": clock(30), "first_step_at": clock(first)}
		}
		end := reported(11)
		end["step_before_at"] = clock(before)
		one := reported(1)
		one["world_size"], one["resume_step"], one["last_step"], one["last_told"] = 2., 0., 100., clock(9)
		return []history.Event{
			at(0, history.JobCreated, 0, nil),
			at(0, history.WorldProposed, 1,
				history.Fields{"world_size": 3., "resume_step": 0., "last_step": nil}),
			at(0, history.WorldRunning, 1, nil),
			at(10, history.WorldProposed, 2, one),
			at(10, history.WorldProposed, 3,
				history.Fields{"world_size": 2., "resume_step": nil, "last_step": 100.}),
			at(10, history.WorldRunning, 3, nil),
			at(10, history.Started, 3, history.Fields{"waterfall": map[string]any{"from_memory": true}}),
			at(30, history.JobDone, 3, end),
		}
	}
	for _, c := range []struct{ before, kept, redone float64 }{
		{9.4, 9 + 19 - 0.6, 0.6},
		{10.5, 9 + 19, 0}, // by a clock that is ahead
		{0.5, 19, 9},      // of no step that counts: never more than the generation had
		{-5, 9 + 19, 0},   // of before it
	} {
		r := goodput.Of("x", began(c.before), goodput.Now{Time: noon.Add(time.Hour)})
		if kept, redone := r.Seconds[goodput.Kept], r.Seconds[goodput.Redone]; math.Abs(kept-c.kept) > 1e-6 ||
			math.Abs(redone-c.redone) > 1e-6 || math.Abs(r.Elapsed-30) > 1e-6 {
			t.Errorf("a step ended after %.1f s: %.1f s count, %.1f s are made again, of %.1f s; want %.1f "+
				"and %.1f",
				c.before, kept, redone, r.Elapsed, c.kept, c.redone)
		}
	}
}

// Workers that stay go on with the state in memory: nothing of the generation before is made again,
// though there is no checkpoint. A world between that never ran changes nothing.
func TestAGenerationThatGoesOnFromMemory(t *testing.T) {
	proposed := history.Fields{"world_size": 2., "resume_step": nil, "last_step": 100.}
	memory := history.Fields{"waterfall": map[string]any{"from_memory": true}}
	for name, c := range map[string]struct {
		started history.Fields
		want    float64
	}{"from memory": {memory, 20}, "from scratch": {history.Fields{"waterfall": map[string]any{}}, 10}} {
		events := []history.Event{
			at(0, history.JobCreated, 0, nil),
			at(0, history.WorldProposed, 1,
				history.Fields{"world_size": 3., "resume_step": 0., "last_step": nil}),
			at(0, history.WorldRunning, 1, nil),
			at(10, history.WorldProposed, 2,
				history.Fields{"world_size": 2., "resume_step": 0., "last_step": 100.}),
			at(10, history.WorldProposed, 3, proposed),
			at(10, history.WorldRunning, 3, nil),
			at(10, history.Started, 3, c.started),
			at(20, history.JobDone, 3, history.Fields{"last_step": 200.}),
		}
		r := goodput.Of("x", events, goodput.Now{Time: noon.Add(time.Hour)})
		if got := r.Seconds[goodput.Kept]; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: kept %.3f s, want %.3f: %+v", name, got, c.want, r)
		}
	}
}

func TestAJobThatRuns(t *testing.T) {
	step := int64(50)
	r := goodput.Of("x", []history.Event{
		at(0, history.JobCreated, 0, nil),
		at(1, history.WorldProposed, 1, history.Fields{"world_size": 1., "resume_step": 0.}),
		at(2, history.WorldRunning, 1, nil),
	}, goodput.Now{Time: noon.Add(12 * time.Second), Step: &step})
	if r.Seconds[goodput.Kept] != 10 || r.Elapsed != 12 || r.Generations[0].Steps() != 50 {
		t.Errorf("%+v", r)
	}
}

// The time until the first step of a generation is no training, however long the generation is.
func TestTimeBeforeAFirstStep(t *testing.T) {
	step := int64(50)
	begin := []history.Event{
		at(0, history.JobCreated, 0, nil),
		at(1, history.WorldProposed, 1, history.Fields{"world_size": 1., "resume_step": 0.}),
		at(2, history.WorldRunning, 1, nil),
	}
	next := []history.Event{
		at(12, history.WorldProposed, 2,
			history.Fields{"world_size": 1., "resume_step": 50., "last_step": 50.,
				"last_told": clock(11), "first_step_at": clock(9)}),
		at(13, history.WorldRunning, 2, nil),
		at(23, history.JobDone, 2,
			history.Fields{"last_step": 100., "last_told": clock(22), "first_step_at": clock(13.25)}),
	}
	first := noon.Add(9 * time.Second)
	now := goodput.Now{Time: noon.Add(12 * time.Second), Step: &step,
		LastProgress: &goodput.LastProgress{At: noon, First: &first}}
	for name, c := range map[string]struct {
		report       goodput.Report
		kept, before float64
	}{
		"a job that runs": {goodput.Of("x", begin, now), 3, 7},
		"two generations of a job": {goodput.Of("x", append(begin[:3:3], next...), goodput.Now{}), 3 + 9.75,
			7 + 0.25},
		"a clock that was set back": {goodput.Of("x", begin, goodput.Now{Time: now.Time, Step: &step,
			LastProgress: &goodput.LastProgress{At: now.Time, First: &noon}}), 10, 0},
	} {
		got := c.report.Seconds
		if math.Abs(got[goodput.Kept]-c.kept) > 1e-6 || math.Abs(got[goodput.NoSteps]-c.before) > 1e-6 {
			t.Errorf("%s: %.3f s kept and %.3f before a first step, want %.3f and %.3f",
				name, got[goodput.Kept], got[goodput.NoSteps], c.kept, c.before)
		}
	}
}

func TestNothingIsKnown(t *testing.T) {
	if r := goodput.Of("x", nil, goodput.Now{Time: noon}); r.Elapsed != 0 || len(r.Generations) != 0 {
		t.Errorf("%+v", r)
	}
}
