package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// two is a testbed with two nodes, and an audit.
func two(t *testing.T) (*testbed, *audit) {
	t.Helper()
	l := newTestbed(t, "a", "b")
	w := l.audit("x")
	l.all("--np=1:2", "--job-id=x", "sh", "-c", sit)
	l.running("x", 1, 2)
	until(t, "the workers of both are there", func() error {
		if now := l.crew(); len(now) != 2 {
			return fmt.Errorf("there are %v", now)
		}
		return nil
	})
	return l, w
}

// One of two machines is frozen. It answers neither the other one nor the suspicion in the store.
// It is lost long before its lease ends.
func TestOneOfTwoStandsStill(t *testing.T) {
	t.Parallel()
	l, w := two(t)
	time.Sleep(2 * time.Second) // both know how fast the other one answers
	from := w.mark(t)
	thaw := freeze((*testbed).on)(l, []string{"b"})
	stopped := time.Now()
	l.running("x", 2, 1)
	w.mark(t)
	for _, e := range w.since(from, history.NodeSuspected, history.NodeLost, history.WorldProposed) {
		t.Logf("%s after %s", e.Text, e.Time.Sub(stopped).Round(time.Millisecond))
	}
	lost := w.since(from, history.NodeLost)
	if len(lost) != 1 || lost[0].Node != "b" || lost[0].Fields["reason"] != "silent" {
		t.Errorf("lost: %+v", lost)
	}
	thaw()
	l.reaches("x", "both run", func(s status) error {
		if s.State != "running" || s.WorldSize != 2 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	w.holds(t)
}

// Two machines cannot reach each other, in one direction or in both, but both reach the store. Each
// answers the suspicion of the other one there, and no node is lost. The same holds if an agent is
// frozen for half a second, again and again.
func TestACutOfTwoIsNoLoss(t *testing.T) {
	t.Parallel()
	l, w := two(t)
	from := w.mark(t)
	was := l.crew()
	for _, both := range []bool{false, true} {
		undo := pair(both)(l, []string{"a", "b"})
		w.reaches(t, limit, "a suspicion", func() error {
			if len(w.doubt) == 0 {
				return fmt.Errorf("none yet")
			}
			return nil
		})
		time.Sleep(endure(t, 5*time.Second, time.Minute))
		undo()
		w.trusts(t)
	}
	for range 5 {
		thaw := freeze((*testbed).agent)(l, []string{"b"})
		time.Sleep(500 * time.Millisecond)
		thaw()
		time.Sleep(300 * time.Millisecond)
	}
	w.mark(t)
	if e := w.since(from, history.NodeLost, history.WorldProposed); len(e) > 0 {
		t.Errorf("%v", e)
	}
	if now := l.crew(); !same(now, was) {
		t.Errorf("the workers were %v and are %v", was, now)
	}
	w.holds(t)
}
