package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Neighbours that end together are replaced in one generation, wherever their row is. The nodes at
// its ends find them in several steps, and the planners wait for that. One proposal deletes as many
// suspicions as fit; the nodes that wrote the others withdraw them at once.
func TestARowOfNeighboursIsOneLoss(t *testing.T) {
	for _, c := range []struct{ n, from, row int }{{4, 1, 2}, {30, 10, 3}, {40, 10, 16}, {40, 0, 12},
		{40, 35, 10}, {150, 20, 100}} {
		t.Run(fmt.Sprintf("%d of %d from rank %d", c.row, c.n, c.from), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, fmt.Sprintf("1:%d", c.n), 1)
				for i := range c.n {
					s.start(fmt.Sprintf("n%02d", i))
				}
				s.until("all of them run", 30*time.Second, s.running(0, c.n))
				time.Sleep(5 * time.Second)
				w := s.snapshot().World
				lost := map[string]bool{}
				for i := range c.row {
					lost[w.Members[(c.from+i)%c.n].Node] = true
				}
				for _, a := range s.agents {
					if lost[a.node] {
						a.kill()
					}
				}
				s.until("the others run without them", 10*time.Second, s.running(0, c.n-c.row))
				if g := s.snapshot().World.Generation; g != w.Generation+1 {
					t.Errorf("it took %d generations", g-w.Generation)
				}
				s.until("no suspicion is left", 2*time.Second,
					func(x rendezvous.Snapshot) bool { return len(x.Suspects) == 0 })
				s.finish()
			})
		})
	}
}
