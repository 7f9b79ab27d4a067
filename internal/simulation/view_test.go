package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// An agent that stood still first reads its own registration, which does not show the other nodes.
// A save that it captured before is still committed with its copies.
func TestAgentThatStoodStillKeepsTheOthersInView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, 3, someFaults())
		for _, name := range s.names[:3] {
			s.up(name)
		}
		s.runs(time.Minute)
		s.until("a save is committed", time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Head.Number > 0 })
		for range 20 {
			a := s.at[s.snapshot().World.Members[0].Node]
			a.freeze()
			time.Sleep(900 * time.Millisecond) // the others do not suspect it yet
			a.thaw()
			time.Sleep(3 * time.Second)
		}
		s.stop()
		s.finish()
		for _, c := range s.commits {
			if c.head.Copies < 2 {
				t.Errorf("checkpoint %d has one copy, and three nodes are here\n%s", c.head.Number, s.story())
				break
			}
		}
		s.workers.Wait()
	})
}
