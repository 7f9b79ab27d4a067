package rendezvous_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// known is what the records say of machines.
func (w *storedJob) known() (text string) {
	all, err := machines.All(w.t.Context(), w.Store)
	w.must(err)
	for _, r := range all {
		for _, i := range r.Incidents {
			text += fmt.Sprintf("%s %s: %s; ", r.ID, i.Kind, i.Text)
		}
	}
	return text
}

// What a step says of a node is written into the record of its machine, and nothing that is no node's.
func TestIncidents(t *testing.T) {
	failed := func(change func(*rendezvous.Failure)) plan.Step {
		f := rendezvous.Failure{Node: "b", Rank: 1, Code: 1}
		change(&f)
		return plan.End{Failure: &plan.ReportedFailure{Failure: f}}
	}
	out := rendezvous.Ledger{Nodes: []rendezvous.NodeRecord{{Node: "b", Quarantine: 1, Text: "failed twice"}}}
	for name, c := range map[string]struct {
		step plan.Step
		want string
	}{
		"a worker failed": {failed(func(*rendezvous.Failure) {}), "m-b failed: rank 1 on b ended with exit code 1; "},
		"all waited for it": {failed(func(f *rendezvous.Failure) { f.Hang = true }),
			"m-b hung: rank 1 on b hangs; "},
		"all hang, and no rank differs": {failed(func(f *rendezvous.Failure) { f.Hang, f.NotKnown = true, true }), ""},
		"a victim":                      {failed(func(f *rendezvous.Failure) { f.Victim = true }), ""},
		"a loss that is not a number":   {failed(func(f *rendezvous.Failure) { f.NaN = true }), ""},
		"it asks for a restart":         {failed(func(f *rendezvous.Failure) { f.Code = 101 }), ""},
		"a lost node took it along": {plan.Hold{Failure: &plan.ReportedFailure{Collateral: true,
			Failure: rendezvous.Failure{Node: "b"}}}, ""},
		"it was lost": {plan.Hold{Lost: []verdict.Member{{Ref: ref("b"), Why: "connection closed"}}},
			"m-b lost: connection closed; "},
		"it is left out": {plan.Propose{World: rendezvous.World{Ledger: out}}, "m-b left-out: failed twice; "},
	} {
		w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b").run("a", "b")
		w.must(w.NoteIncidents(t.Context(), w.see(), c.step))
		if got := w.known(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What is seen of a registered node again and again is kept once for each minute.
func TestNoteOf(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b")
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Duration{0, 59 * time.Second, time.Minute} {
		w.must(w.NoteOf(t.Context(), "b", machines.Incident{Kind: machines.Disk, Text: "no space",
			Time: machines.Repeated(noon.Add(at))}))
	}
	w.must(w.NoteOf(t.Context(), "stranger", machines.Incident{Kind: machines.Disk, Time: noon}))
	if got, want := w.known(), "m-b disk: no space; m-b disk: no space; "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
