package hang

import (
	"strings"
	"testing"
)

// A rank is named if it stands out in both looks.
func TestLook(t *testing.T) {
	t.Parallel()
	const because = "it stands in lock (train.py:8), and 5 of 6 ranks wait for it in all_reduce"
	for name, x := range map[string]struct {
		b            group
		known, busy  bool
		reason, away string
	}{
		"stands still": {b: group{stacks: []string{inReduce, inLock}}, known: true, reason: because},
		"works": {b: group{stacks: []string{inReduce, inLock}, work: 0.9}, known: true, busy: true,
			reason: because},
		"works in a child": {b: group{stacks: []string{inReduce, inLock}, below: true}, known: true,
			busy: true, reason: because},
		"passes by": {b: group{stacks: []string{inReduce, ""}, moves: []string{inLock, inReduce}},
			reason: "no rank stands out"},
		"all wait": {b: group{stacks: []string{inReduce, inReduce}}, reason: "no rank stands out"},
		"no answer": {b: group{stacks: []string{inReduce, inLock}}, reason: "no rank stands out",
			away: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := x.b
			b.node = "b"
			l := newLab(t, &group{node: "a", stacks: []string{inReduce, inReduce}}, &b,
				&group{node: "c", stacks: []string{inReduce, inReduce}})
			if x.away != "" {
				l.server[x.away].Close()
			}
			w := l.nodes["a"]
			v := w.Look(t.Context())
			if v.Known != x.known || v.Busy != x.busy || v.Reason != x.reason ||
				strings.Join(v.Without, " ") != x.away {
				t.Errorf("%+v", v)
			}
			if v.Known && (v.Rank != 3 || v.Node != "b" || !strings.Contains(v.Stack, "train.py:8")) {
				t.Errorf("%+v", v)
			}
			if asked, all := (&Watch{World: w.World, To: w.To}).Ask(t.Context()); x.away == "" &&
				(len(all) != 6 || x.b.moves == nil && asked.Reason != x.reason) {
				t.Errorf("asked from outside: %+v %+v", asked, all)
			}
		})
	}
}
