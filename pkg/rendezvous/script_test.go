package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// scriptFailure is a failure of the worker of a node by an error of its script.
func scriptFailure(node, text string) fact {
	return func(x *situation) {
		failure(node, 1, time.Second)(x)
		x.Failure.Script, x.Failure.Message = true, text
	}
}

// fails reports whether the job has ended because of its script.
func scriptFails(x *situation) (ended bool, l rendezvous.Ledger) {
	step := x.plan()
	return stepText(step) == "failed 1 (worker); the failure spent nothing", books(step)
}

// A script error before the first step is not tried a third time: it ends the job where two nodes have it, or
// where it comes again. One node alone is left out where np allows that, as for each failure.
func TestScriptErrors(t *testing.T) {
	const text = "TypeError: f() missing argument, in <Net at 0x7f12>"
	beside := func(message string) fact {
		return func(x *situation) {
			other := *x.Failure
			other.Node, other.Rank, other.Message = "b", 1, message
			*x.Failure, _ = x.Failure.With(other)
		}
	}
	made := func(x *situation) { x.Failure.Step = new(int64(7)) }
	before := rendezvous.Ledger{Script: "TypeError: f() missing argument, in <Net at 0x>"}
	row := before
	row.Nodes = []rendezvous.NodeRecord{{Node: "a", Row: 1, Failures: 1}}
	for name, c := range map[string]struct {
		l     rendezvous.Ledger
		facts []fact
		ends  bool
	}{
		"the first time":                      {rendezvous.Ledger{}, []fact{noSpare}, false},
		"on two nodes":                        {rendezvous.Ledger{}, []fact{beside("TypeError: f() missing argument, in <Net at 0x8>")}, true},
		"on two nodes, with different texts":  {rendezvous.Ledger{}, []fact{noSpare, beside("TypeError: another")}, false},
		"again":                               {before, []fact{noSpare}, true},
		"again, on a node that is not needed": {row, nil, false},
		"another one":                         {rendezvous.Ledger{Script: "TypeError: another"}, []fact{noSpare}, false},
		"again, after a step":                 {before, []fact{noSpare, made}, false},
		"another error with the text of it":   {before, []fact{noSpare, func(x *situation) { x.Failure.Script = false }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := running(c.l, append([]fact{scriptFailure("a", text)}, c.facts...)...)
			ends, l := scriptFails(x)
			if ends != c.ends {
				t.Errorf("the job ends: %v (%s)", ends, stepText(x.plan()))
			}
			if noted := l.Script != ""; noted != (name != "again, after a step" && x.Failure.Script) {
				t.Errorf("the next failure is compared with %q", l.Script)
			}
		})
	}
}
