package status_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// The node that turns a world to running may be a newcomer. The time without training is that of the
// node that stopped its workers first, whoever asks.
func TestIdleIsCountedFromTheFirstStop(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ready := func(rev, stop int64, after *int64) rendezvous.Ready {
		return rendezvous.Ready{Rev: rev, StopMS: stop, AfterMS: after}
	}
	for name, c := range map[string]struct {
		ready map[string]rendezvous.Ready
		want  time.Duration // a second after all were seen ready
	}{
		"one survivor, one newcomer": {map[string]rendezvous.Ready{"a": ready(1, 0, nil), "b": ready(2, 500, new(int64(40_000)))}, 41500 * time.Millisecond},
		"two survivors":              {map[string]rendezvous.Ready{"a": ready(1, 100, new(int64(200))), "b": ready(2, 0, new(int64(900)))}, 1900 * time.Millisecond},
		"nobody had workers":         {map[string]rendezvous.Ready{"a": ready(1, 0, nil)}, 0},
	} {
		s := &rendezvous.Snapshot{Job: &rendezvous.Job{Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}}, Ready: c.ready,
			World: &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Forming}}
		var o status.TimingObserver
		o.Observe(s, verdict.View{}, "", plan.Nothing{}, noon)
		if got := o.Idle(noon.Add(time.Second)); got != c.want {
			t.Errorf("%s: %v without training, want %v", name, got, c.want)
		}
	}
}

func TestStartsAreCountedByCause(t *testing.T) {
	w := rendezvous.World{Cause: rendezvous.CauseFirst}
	w.CountStart(0)
	if len(w.Causes) != 0 {
		t.Errorf("the first start is counted: %v", w.Causes)
	}
	for range 2 {
		before := w.Causes
		w = rendezvous.World{Cause: rendezvous.CauseNodeLost, Previous: 2, Causes: w.Causes}
		w.CountStart(1500 * time.Millisecond)
		if before[rendezvous.CauseNodeLost] == w.Causes[rendezvous.CauseNodeLost] {
			t.Error("counting changed the world before")
		}
	}
	if got, want := w.Causes[rendezvous.CauseNodeLost], (rendezvous.Starts{Count: 2, IdleMS: 3000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
