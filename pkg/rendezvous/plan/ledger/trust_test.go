package ledger

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

func at(step int64) *int64 { return &step }

func TestSuspicion(t *testing.T) {
	resume := func(step int64) *rendezvous.Resume { return &rendezvous.Resume{Number: 3, Step: &step} }
	died := func(step int64, back bool) *rendezvous.Death {
		return &rendezvous.Death{Step: step, WentBack: back}
	}
	for name, c := range map[string]struct {
		ending
		want bool
	}{
		"from scratch": {ending{failure: &rendezvous.Failure{Step: at(5), NaN: true}},
			false},
		"a first crash": {ending{failure: &rendezvous.Failure{Step: at(40)},
			resume: resume(30)}, false},
		"a crash at load, for the first time": {ending{failure: &rendezvous.Failure{}, resume: resume(30)},
			false},
		"a crash at load again": {ending{failure: &rendezvous.Failure{}, resume: resume(30),
			previous: died(30, false)}, true},
		"a crash at load, and now one after a commit": {ending{failure: &rendezvous.Failure{},
			resume:   resume(30),
			previous: died(30, false), head: checkpoint.Head{Number: 4, Step: at(35)}}, false},
		"a crash at the same step": {ending{failure: &rendezvous.Failure{Step: at(40)},
			resume: resume(30), previous: died(40, false)}, true},
		"a crash at another step": {ending{failure: &rendezvous.Failure{Step: at(41)},
			resume: resume(30), previous: died(40, false)}, false},
		"no step from the older checkpoint either": {ending{failure: &rendezvous.Failure{},
			resume: resume(20), previous: died(30, true)}, true},
		"some steps from the older checkpoint": {ending{failure: &rendezvous.Failure{Step: at(25)},
			resume: resume(20), previous: died(30, true)}, false},
		"a loss that is lost at once": {ending{failure: &rendezvous.Failure{Step: at(33), NaN: true},
			resume: resume(30)}, true},
		"a loss that is lost after the trusted steps": {ending{failure: &rendezvous.Failure{Step: at(45),
			NaN: true},
			resume: resume(30)}, false},
		"a loss that is lost there again": {ending{failure: &rendezvous.Failure{Step: at(45), NaN: true},
			resume: resume(30), previous: died(45, false)}, true},
		"a crash at load again, of the node that failed before": {ending{failure: &rendezvous.Failure{},
			resume: resume(30), previous: died(30, false), alone: true}, false},
		"no step from the older checkpoint, by the node that failed before": {ending{
			failure: &rendezvous.Failure{}, resume: resume(20), previous: died(30, true), alone: true}, false},
		"no step was reported": {ending{failure: &rendezvous.Failure{NaN: true},
			resume: &rendezvous.Resume{Number: 3}}, false},
	} {
		if why, got := c.suspects(); got != c.want || got == (why == "") {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}
