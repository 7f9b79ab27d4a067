package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The network between rank 0 and the node that has its copies is cut, and nothing else: those who
// train do not notice. A connection of before the cut asks again 25 s after it began. What comes
// after the cut is saved at once all the same.
func TestCutFromTheCopies(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c", "d")
	w := l.law("x")
	l.line = []string{"--np=3", "--job-id=x", "--batch-size=240", "--lr=0.1", "--scaling=fixed-batch", "train",
		"--step-sleep=20ms", "--save-every=300ms", "--steps=1000000"}
	for _, name := range l.names[1:] {
		l.again(name)
	}
	w.reaches(t, limit, "a world runs", func() error {
		if w.world == nil || w.world.Phase != rendezvous.Running {
			return fmt.Errorf("%+v", w.world)
		}
		return nil
	})
	l.again("a") // a spare, with the first name: the copies go to it
	l.trains(w, 3, 0)
	zero, before := w.zero(), l.crew()
	copied := func(after int64) func() error {
		return func() error {
			if w.head.Rev <= after || !slices.ContainsFunc(w.head.Holders,
				func(r membership.Ref) bool { return r.Node == "a" }) {
				return fmt.Errorf("the newest checkpoint is %+v", w.head)
			}
			return nil
		}
	}
	w.reaches(t, limit, "copies on a", copied(w.mark(t)))
	at := slices.IndexFunc(everyKind, func(k kind) bool { return k.name == "cut between" })
	f := fault{kind: everyKind[at], hits: []string{zero, "a"}, lasts: 14 * time.Second}
	l.suffer([]fault{f})
	healed, rev := time.Now(), w.mark(t)
	w.reaches(t, 8*time.Second, "copies on a again", copied(rev))
	t.Logf("%v: copies again %s after it", f, time.Since(healed).Round(time.Millisecond))
	l.judge([]fault{f}, before, nil, nil)
	w.holds(t)
}
