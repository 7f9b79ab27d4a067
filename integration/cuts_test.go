package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The network between two nodes, or between a node and the server, is cut in one or both directions
// for longer than any lease. No node is lost: a node that one other finds silent still answers the
// rest, and a node that only the server does not hear is alive.
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

// A node is cut off from all other nodes, but not from the server. It suspects the nodes that it
// watches, and its watchers suspect it. That is the loss of one node: silence counts at once, and
// not after the window for many doubts at once. No other node is lost.
func TestCutFromItsPeers(t *testing.T) {
	t.Parallel()
	l, w := cluster(t)
	for _, rank := range []int{0, 1, 2} {
		from := w.mark(t)
		var was *rendezvous.World
		w.look(func() { was = w.world })
		off := was.Members[rank].Node
		undo := sever((*testbed).peers, both)(l, []string{off})
		cut := time.Now()
		w.reaches(t, limit, "a later generation commits", func() error {
			if w.head.Generation <= was.Generation {
				return fmt.Errorf("the newest is of generation %d", w.head.Generation)
			}
			return nil
		})
		lost := w.since(from, history.NodeLost)
		for _, e := range w.since(from, history.NodeSuspected, history.NodeLost, history.WorldProposed,
			history.WorldRunning) {
			t.Logf("rank %d: %s after %s", rank, e.Text, e.Time.Sub(cut).Round(time.Millisecond))
		}
		if len(lost) != 1 || lost[0].Node != off || lost[0].Time.Sub(cut) >= window {
			t.Errorf("%s was cut off, and lost were, %v: %v", off, cut, lost)
		}
		undo()
		l.trains(w, 3, w.mark(t))
		w.holds(t)
	}
}
