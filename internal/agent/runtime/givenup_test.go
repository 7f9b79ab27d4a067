package runtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// An operator goes back to an older checkpoint, and the store is lost before a member hears of it.
// The job that is made again begins from that checkpoint, and its World has no rollback. Workers
// that wait with the abandoned state end with the lost job.
func TestWipedBeforeAMemberHeardOfARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "3", 1)
		s.program = func(g *simGroup) { g.stay = stayWell }
		nodes := s.trains("a", "b", "c")
		s.commit()
		older := s.snapshot().Head
		s.commit()
		time.Sleep(5 * time.Second) // their workers said that they can stay
		nodes[0].kill()
		s.until("the others wait", time.Minute,
			func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
		time.Sleep(time.Second) // their workers wait for the next generation
		nodes[1].client.Cut(true)
		snap := s.snapshot()
		operator := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
		head, err := operator.Restore(t.Context(), &snap, older)
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.acked[s.last] = head
		s.mu.Unlock()
		time.Sleep(time.Second)
		s.wipe()
		nodes[1].client.Cut(false)
		s.start("a")
		s.goesOn(snap.Fence, 3, 2*time.Minute)
		if now := s.snapshot(); now.World.Resume.Manifest != older.Manifest || now.World.Rollback != 0 {
			t.Errorf("it begins from %+v, rollback %d\n%s", now.World.Resume, now.World.Rollback, s.story())
		}
		s.mu.Lock()
		if s.kept > 0 {
			s.wrongf("workers of the job that was lost went on in the next one")
		}
		s.mu.Unlock()
		s.end()
	})
}
