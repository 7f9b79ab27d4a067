package integration

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/history"
)

// The network between two nodes, or between one and the server, closes one way
// or both ways for longer than any lease, and opens again. Nobody is lost by
// it: who is silent to one other answers the rest, and whom only the server
// does not hear is alive.
func TestCuts(t *testing.T) {
	t.Parallel()
	l, w := cluster(t)
	for _, k := range everyKind {
		hits := [][]string{}
		switch k.name {
		case "cut between", "cut one way between":
			zero := w.zero()
			hits = [][]string{{zero, l.peers([]string{zero})[0]}, {l.peers([]string{zero})[1], zero}}
		case "cut from the server", "cut on the way to the server", "cut on the way from the server":
			hits = [][]string{{w.zero()}}
		}
		for _, hit := range hits {
			from, before := w.mark(t), l.crew()
			f := fault{kind: k, hits: hit, lasts: endure(t, 5*time.Second, 40*time.Second)}
			l.suffer([]fault{f})
			l.trains(w, 3, w.mark(t))
			w.mark(t)
			worlds, lost := w.since(from, history.WorldProposed), w.since(from, history.NodeLost)
			t.Logf("%v: %d generations, %d lost", f, len(worlds), len(lost))
			l.judge([]fault{f}, before, worlds, lost)
			w.holds(t)
		}
	}
}
