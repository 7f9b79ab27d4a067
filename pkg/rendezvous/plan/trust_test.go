package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"

	"github.com/elasticd/elastic/pkg/scaling"
)

// trainer is a job of one node, some of whose checkpoints are bad. It commits every ten steps and
// keeps only the newest checkpoints.
type trainer struct {
	t       *testing.T
	s       *rendezvous.Snapshot
	keep    int
	cycles  int // generations that died
	numbers checkpoint.Number
	bytes   byte
	script  bool // it fails by its script
}

func newTrainer(t *testing.T, rules rendezvous.Rules) *trainer {
	rules.MaxRestarts = 100
	ref := membership.Ref{Node: "a", Incarnation: "a1"}
	return &trainer{t: t, keep: 5, s: &rendezvous.Snapshot{Rev: 9, Whole: true, Fence: 1,
		Job: &rendezvous.Job{UID: "u", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 1, Exact: true},
			Slots: 1, Base: scaling.Base{Nodes: 1, Slots: 1}, Rules: rules},
		Wish:  rendezvous.Wish{NP: 1, Request: "r", Rev: 1},
		Ready: map[string]rendezvous.Ready{}, Exits: map[string]rendezvous.Exit{},
		Held:  map[string]rendezvous.Held{},
		Nodes: []membership.Node{{Ref: ref, Attempt: 1, Rev: 2}},
		World: &rendezvous.World{UID: "u", Generation: 1, Attempt: 1, Phase: rendezvous.Running, Count: 1,
			Slots: 1, Request: "r",
			Members: []membership.Ref{ref}, Master: &rendezvous.Master{}, Rev: 8}}}
}

// commit makes a checkpoint of the running generation.
func (x *trainer) commit(step int64) {
	x.numbers, x.bytes = max(x.numbers, x.s.Head.Number)+1, x.bytes+1
	h := checkpoint.Head{Number: x.numbers, Manifest: checkpoint.Hash{x.bytes}, Step: &step,
		Generation: x.s.World.Generation, Rev: int64(x.numbers)}
	x.add(h)
}

func (x *trainer) add(h checkpoint.Head) {
	x.s.Head = h
	x.s.History = append(x.s.History, h)
	x.s.History = x.s.History[max(0, len(x.s.History)-x.keep):]
}

// fail ends the generation with a failure, and runs the next one if there is one. It returns the
// step from which the next one begins; -1 if the job has failed.
func (x *trainer) fail(step *int64, nan bool) int64 {
	x.t.Helper()
	x.cycles++
	x.s.Failure = &rendezvous.Failure{Node: "a", Incarnation: "a1", Code: 1, Step: step, NaN: nan, Script: x.script}
	v := verdict.Judge(verdict.Records{Members: x.s.World.Members, Nodes: x.s.Nodes},
		verdict.Evidence{}, verdict.Timeouts{}, time.Time{})
	for range 3 {
		switch step := Next(Facts{Snapshot: x.s, View: v,
			Timeouts: DefaultTimeouts, Now: time.Time{}.Add(time.Hour)}).(type) {
		case End:
			if step.Phase != rendezvous.Failed {
				x.t.Fatalf("ended %s", step.Phase)
			}
			x.s.World.Outcome = &step.Outcome
			return -1
		case Hold: // a back-off: it passes
			x.s.World.Phase, x.s.World.Hold, x.s.World.Ledger = rendezvous.Waiting, &step.Hold, step.Ledger
			x.s.Failure = nil
			x.s.World.Hold.Backoff = 0
		case Propose:
			if step.NewHead != nil {
				x.s.Head = *step.NewHead
				x.s.History = append(x.s.History, x.s.Head) // surplus goes with the next commit
				if step.Distrust == "" {
					x.t.Error("the checkpoint can be read")
				}
			}
			w := step.World
			w.Phase, w.Master, w.Rev = rendezvous.Running, &rendezvous.Master{}, x.s.World.Rev+10
			x.s.World, x.s.Fence, x.s.Failure = &w, w.Generation, nil
			return *w.Resume.Step
		default:
			x.t.Fatalf("got %+v", step)
		}
	}
	x.t.Fatal("no world")
	return 0
}

func at(step int64) *int64 { return &step }

// The newest checkpoints are bad: workers fail to load them. Each costs one generation, and the
// first one another, because a single crash proves nothing.
func TestPoisonedStateIsHealed(t *testing.T) {
	for poisoned := int64(1); poisoned <= 2; poisoned++ {
		t.Run(fmt.Sprint(poisoned), func(t *testing.T) {
			x := newTrainer(t, rendezvous.Rules{})
			for step := int64(10); step <= 50; step += 10 {
				x.commit(step)
			}
			sound := 50 - 10*poisoned
			from := x.fail(at(55), false) // the cause is gone
			for from > sound {
				from = x.fail(nil, false)
			}
			if from != sound || x.cycles-1 > 3 {
				t.Errorf("goes on from step %d after %d dead generations, want %d after at most 3",
					from, x.cycles-1, sound)
			}
		})
	}
}

// After a loss that is not a number within three steps, the job goes back at once. It is healthy
// after at most three generations.
func TestALossThatIsLostAtOnceGoesBack(t *testing.T) {
	x := newTrainer(t, rendezvous.Rules{OnNaN: rendezvous.NaNRollback, Rollbacks: 3})
	for step := int64(10); step <= 50; step += 10 {
		x.commit(step)
	}
	for _, c := range []struct{ died, from int64 }{{55, 50}, {53, 40}, {43, 30}, {33, 20}} {
		if from := x.fail(&c.died, true); from != c.from {
			t.Fatalf("the loss was lost at step %d: goes on from step %d, want %d", c.died, from, c.from)
		}
	}
	if from := x.fail(at(23), true); from != -1 || x.s.World.Outcome.Why != rendezvous.LossNaN {
		t.Errorf("after three times back it goes on from step %d, %+v", from, x.s.World.Outcome)
	}
}

// A checkpoint saved after the bad step is not used, whatever its number.
func TestPoisonThatWasSavedIsSkipped(t *testing.T) {
	x := newTrainer(t, rendezvous.Rules{OnNaN: rendezvous.NaNRollback, Rollbacks: 3})
	for step := int64(10); step <= 50; step += 10 {
		x.commit(step)
	}
	if from := x.fail(at(35), true); from != 30 {
		t.Errorf("goes on from step %d, want 30", from)
	}
	// It gets past that step, so the next failure there is the first one again.
	x.commit(60)
	x.commit(70)
	if from := x.fail(at(75), true); from != 70 || x.s.World.Ledger.Death.Rollbacks != 0 {
		t.Errorf("goes on from step %d, rollbacks %d", from, x.s.World.Ledger.Death.Rollbacks)
	}
}

func TestTheRuleOfTheJob(t *testing.T) {
	x := newTrainer(t, rendezvous.Rules{OnNaN: rendezvous.NaNFails})
	x.commit(10)
	if from := x.fail(at(15), true); from != -1 || x.s.World.Outcome.Code != ledger.ExitNever {
		t.Errorf("goes on from %d, %+v", from, x.s.World.Outcome)
	}
	x = newTrainer(t, rendezvous.Rules{OnNaN: rendezvous.NaNRollback, Rollbacks: 3})
	x.commit(10)
	x.s.World.Resume = &rendezvous.Resume{Number: 1, Manifest: x.s.Head.Manifest, Step: at(10)}
	if from := x.fail(at(12), true); from != -1 {
		t.Errorf("no older checkpoint is left, and it goes on from %d", from)
	}
	if used := x.s.World.Ledger.Used; used != 0 {
		t.Errorf("a lost loss spent %d restarts", used)
	}
}

// An error of the script is that of no checkpoint: none is taken out of use, wherever it comes.
func TestScriptErrorsDistrustNoCheckpoint(t *testing.T) {
	x := newTrainer(t, rendezvous.Rules{})
	x.script = true
	for step := int64(10); step <= 50; step += 10 {
		x.commit(step)
	}
	for range 3 {
		if from := x.fail(at(55), false); from != 50 {
			t.Errorf("goes on from step %d", from)
		}
	}
}

// A bug at one step causes a limited number of rollbacks. Then the restart budget decides.
func TestABugIsNotTakenForPoisonForEver(t *testing.T) {
	x := newTrainer(t, rendezvous.Rules{})
	x.keep = 100
	for step := int64(10); step <= 200; step += 10 {
		x.commit(step)
	}
	lowest := int64(200)
	for range 20 {
		from := x.fail(at(205), false)
		lowest = min(lowest, from)
	}
	if lowest != 200-10*ledger.MostRollbacks {
		t.Errorf("went back to step %d, want %d", lowest, 200-10*ledger.MostRollbacks)
	}
}
