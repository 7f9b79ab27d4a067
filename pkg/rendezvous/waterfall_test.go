package rendezvous_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A start is reported while its generation is the newest. Status shows only the start of the newest
// World.
func TestWaterfallOfTheNewestWorld(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b")
	w.propose("a", "b")
	shown := func() *rendezvous.Timing { return status.Explain(w.see(), time.Now()).Waterfall }
	if f := shown(); f != nil {
		t.Errorf("a world that forms has a waterfall: %s", f)
	}
	fall := rendezvous.Timing{By: "a", Sign: rendezvous.SignNodes, Decided: new(int64(2)),
		Proposed: new(int64(9)), Barrier: new(int64(50)), Last: "b"}
	first, err := w.Run(t.Context(), w.see(),
		txn.Starting{Step: plan.Run{Master: rendezvous.Master{Host: "a"}}, Timing: fall})
	w.must(err)
	if diff := cmp.Diff(&fall, shown()); diff != "" {
		t.Errorf("running: %s", diff)
	}
	for _, e := range w.see().Events {
		if e.Kind == history.WorldRunning && e.Fields["barrier_ms"] != 41.0 {
			t.Errorf("the barrier took %v ms", e.Fields["barrier_ms"])
		}
	}
	fall.Started = new(int64(80))
	w.must(w.PublishTiming(t.Context(), &first, fall))
	if diff := cmp.Diff(&fall, shown()); diff != "" {
		t.Errorf("started: %s", diff)
	}

	w.propose("a", "b")
	if err := w.PublishTiming(t.Context(), &first, fall); !store.Moved(err) {
		t.Errorf("a start of generation 1 reported under generation 2: %v", err)
	}
	if f := shown(); f != nil {
		t.Errorf("generation 2 has the waterfall of generation 1: %s", f)
	}
}
