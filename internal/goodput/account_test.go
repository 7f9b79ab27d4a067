package goodput_test

import (
	"math"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/pkg/history"
)

// clock is a time that many seconds after noon, as events have it.
func clock(second float64) string {
	return noon.Add(time.Duration(second * float64(time.Second))).Format(history.TimeFormat)
}

// What the time of a job was good for that hung, reported nothing, or ended.
func TestWhatTimeWasGoodFor(t *testing.T) {
	begin := []history.Event{at(0, history.JobCreated, 0, nil),
		at(5, history.WorldProposed, 1, history.Fields{"world_size": 2., "resume_step": 0.}),
		at(6, history.WorldRunning, 1, nil)}
	untold := history.Fields{"world_size": 2., "resume_step": nil, "last_step": nil, "checkpoint": 1.}
	step := int64(100)
	for name, c := range map[string]struct {
		events []history.Event
		now    goodput.Now
		want   map[goodput.Bucket]float64
	}{
		"nothing counts after the end": {[]history.Event{
			at(106, history.JobDone, 1, history.Fields{"last_step": 100., "last_told": clock(105)}),
			at(107, history.NodeLeft, 1, nil), at(110, history.Deleted, 1, nil),
		}, goodput.Now{Time: noon.Add(time.Hour)},
			map[goodput.Bucket]float64{goodput.Kept: 100, goodput.Waiting: 5, goodput.Barrier: 1}},
		"another attempt, an hour later": {[]history.Event{
			at(106, history.JobFailed, 1, history.Fields{"last_step": 100.}),
			at(107, history.NodeLeft, 1, nil),
			at(3600, history.NodeJoined, 1, nil),
			at(3602, history.WorldProposed, 2,
				history.Fields{"world_size": 2., "resume_step": 100., "checkpoint": 4.}),
			at(3603, history.WorldRunning, 2, nil),
			at(3613, history.JobDone, 2, history.Fields{"last_step": 110.}),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Kept: 110, goodput.Waiting: 7,
			goodput.Barrier: 2}},
		"a hang that was found": {[]history.Event{
			at(126, history.WorkerFailed, 1, history.Fields{"hang": true}),
			at(126, history.WorldProposed, 2,
				history.Fields{"world_size": 2., "resume_step": 100., "last_step": 100.,
					"last_told": clock(106)}),
			at(127, history.WorldRunning, 2, nil),
			at(137, history.JobDone, 2, history.Fields{"last_step": 200.}),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Kept: 110, goodput.Hung: 20, goodput.Waiting: 5,
			goodput.Barrier: 2}},
		"a hang before a first step": {[]history.Event{
			at(126, history.WorkerFailed, 1, history.Fields{"hang": true}),
			at(126, history.WorldProposed, 2, history.Fields{"world_size": 2., "resume_step": 0.}),
			at(127, history.WorldRunning, 2, nil),
			at(137, history.JobDone, 2, history.Fields{"last_step": 200.}),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Kept: 10, goodput.Hung: 120, goodput.Waiting: 5,
			goodput.Barrier: 2}},
		"a hang that goes on": {nil, goodput.Now{Time: noon.Add(606 * time.Second), Step: &step,
			LastProgress: &goodput.LastProgress{At: noon.Add(106 * time.Second), Every: time.Second}},
			map[goodput.Bucket]float64{goodput.Kept: 100, goodput.Hung: 500, goodput.Waiting: 5,
				goodput.Barrier: 1}},
		"a step takes five minutes": {nil, goodput.Now{Time: noon.Add(606 * time.Second), Step: &step,
			LastProgress: &goodput.LastProgress{At: noon.Add(306 * time.Second), Every: 5 * time.Minute}},
			map[goodput.Bucket]float64{goodput.Kept: 600, goodput.Waiting: 5, goodput.Barrier: 1}},
		"a script that reports no step": {nil, goodput.Now{Time: noon.Add(106 * time.Second)},
			map[goodput.Bucket]float64{goodput.Untold: 100, goodput.Waiting: 5, goodput.Barrier: 1}},
		"one that saves": {[]history.Event{
			at(86, history.Committed, 1, nil),
			at(106, history.WorldProposed, 2, untold), at(107, history.WorldRunning, 2, nil),
			at(117, history.JobDone, 2, nil),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Untold: 80 + 10, goodput.Redone: 20,
			goodput.Waiting: 5, goodput.Barrier: 2}},
		"one that saves before a change": {[]history.Event{
			at(106, history.WaitEntered, 1, history.Fields{"why_code": "saving"}),
			at(107, history.Committed, 1, nil),
			at(108, history.WorldProposed, 2, untold), at(109, history.WorldRunning, 2, nil),
			at(119, history.JobDone, 2, nil),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Untold: 110, goodput.Saving: 2,
			goodput.Waiting: 5, goodput.Barrier: 2}},
		"one that saves, and waits for a node": {[]history.Event{
			at(106, history.WaitEntered, 1, history.Fields{"why_code": "saving", "present": 2., "np": 3.}),
			at(107, history.Committed, 1, nil), at(207, history.WorldProposed, 2, untold),
			at(208, history.WorldRunning, 2, nil), at(218, history.JobDone, 2, nil),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Untold: 110, goodput.Saving: 1,
			goodput.Waiting: 5 + 100, goodput.Barrier: 2}},
		"one that has nothing to save, and waits for a node": {[]history.Event{
			at(106, history.WaitEntered, 1, history.Fields{"why_code": "saving", "present": 2., "np": 3.}),
			at(206, history.WorldProposed, 2, untold), at(207, history.WorldRunning, 2, nil),
			at(217, history.JobDone, 2, nil),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Untold: 10, goodput.Redone: 100,
			goodput.Waiting: 5 + 100, goodput.Barrier: 2}},
		"one that saves nothing": {[]history.Event{
			at(106, history.WorldProposed, 2,
				history.Fields{"world_size": 2., "resume_step": 0., "checkpoint": nil}),
			at(107, history.WorldRunning, 2, nil), at(117, history.JobDone, 2, nil),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Untold: 10, goodput.Redone: 100,
			goodput.Waiting: 5, goodput.Barrier: 2}},
		"the step of a checkpoint is not known": {[]history.Event{
			at(106, history.WorldProposed, 2,
				history.Fields{"world_size": 2., "resume_step": nil, "last_step": 100., "checkpoint": 1.}),
			at(107, history.WorldRunning, 2, nil),
			at(117, history.JobDone, 2, history.Fields{"last_step": 110.}),
		}, goodput.Now{}, map[goodput.Bucket]float64{goodput.Kept: 110, goodput.Waiting: 5,
			goodput.Barrier: 2}},
	} {
		r := goodput.Of("x", append(begin[:len(begin):len(begin)], c.events...), c.now)
		total := 0.
		for _, b := range goodput.Buckets() {
			total += c.want[b]
			if math.Abs(r.Seconds[b]-c.want[b]) > 1e-6 {
				t.Errorf("%s: %s: %.3f s, want %.3f", name, b, r.Seconds[b], c.want[b])
			}
		}
		if math.Abs(r.Elapsed-total) > 1e-6 {
			t.Errorf("%s: elapsed %.3f s, want %.3f", name, r.Elapsed, total)
		}
	}
}
