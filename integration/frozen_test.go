package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// cluster is a testbed with three nodes that train, a spare, and an audit.
func cluster(t *testing.T) (*testbed, *audit) {
	t.Helper()
	l := newTestbed(t, "a", "b", "c", "d")
	w := l.audit("x")
	l.all("--np=3", "--job-id=x", "--batch-size=240", "--lr=0.1", "--scaling=fixed-batch", "train",
		"--step-sleep=20ms", "--save-every=300ms", "--steps=1000000")
	l.trains(w, 3, 0)
	return l, w
}

// A machine is frozen for a minute. The spare replaces it in seconds. When the machine runs again,
// it finds this out before it does anything else. The same happens if only the agent is frozen.
// Then its worker, which belongs to no world any more, ends.
func TestFrozenMachineIsReplaced(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]func(*testbed, string) []process{"agent and worker": (*testbed).on,
		"agent": (*testbed).agent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, w := cluster(t)
			zero, from := w.zero(), w.mark(t)
			thaw := freeze(processes)(l, []string{zero})
			stopped := time.Now()
			w.reaches(t, limit, "the next generation commits", func() error {
				if w.head.Generation < 2 {
					return fmt.Errorf("the newest is of generation %d", w.head.Generation)
				}
				return nil
			})
			for _, e := range w.since(from, history.NodeLost, history.WorldProposed, history.WorldRunning) {
				t.Logf("%s %s after %s", e.Kind, e.Node, e.Time.Sub(stopped).Round(time.Millisecond))
			}
			time.Sleep(endure(t, 4*time.Second, time.Minute))
			rev := w.mark(t)
			others := l.crew(l.peers([]string{zero})...)
			thaw()
			until(t, "its worker ends", func() error {
				if left := l.workers(zero); len(left) > 0 {
					return fmt.Errorf("%v", left)
				}
				return nil
			})
			l.trains(w, 3, rev)
			w.mark(t)
			if now := l.crew(); !same(now, others) {
				t.Errorf("the workers were %v and are %v", others, now)
			}
			if g := w.since(rev, history.WorldProposed); len(g) > 0 {
				t.Errorf("it disturbed the others: %v", g)
			}
			w.holds(t)
		})
	}
}

// A frozen worker stops the training, but its agent answers, so no node is lost. On a busy machine
// an agent may be suspected for a short time. No suspicion stays.
func TestFrozenWorkerIsNoLoss(t *testing.T) {
	t.Parallel()
	l, w := cluster(t)
	zero, from := w.zero(), w.mark(t)
	was := l.crew()
	thaw := freeze((*testbed).workers)(l, []string{zero})
	time.Sleep(endure(t, 5*time.Second, time.Minute))
	rev := w.mark(t)
	w.trusts(t)
	thaw()
	l.trains(w, 3, rev)
	if now := l.crew(); !same(now, was) {
		t.Errorf("the workers were %v and are %v", was, now)
	}
	if e := w.since(from, history.NodeLost, history.WaitEntered, history.WorldProposed); len(e) > 0 {
		t.Errorf("it was taken for a loss: %v", e)
	}
	w.holds(t)
}
