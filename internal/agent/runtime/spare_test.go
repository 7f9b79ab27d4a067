package runtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// spared is a simulation of three members, of which two are enough, and a spare.
func spared(t *testing.T) (s *wiped, members []*simAgent, spare *simAgent) {
	s = newWiped(t, "2:3", 1)
	members = s.trains("a", "b", "c")
	spare = s.start("d")
	s.until("the spare is here", 30*time.Second,
		func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 4 })
	time.Sleep(5 * time.Second)
	return s, members, spare
}

// A spare was lost with its machine, and reported. Later a member is lost with its machine,
// together with the store. No checkpoint can be only on these two, so the others do not wait for
// the spare: one missing node is fewer than the copies.
func TestWipedAfterASpareWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, members, spare := spared(t)
		s.commit()
		spare.kill()
		s.until("its loss is reported", 20*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Missed) == 1 })
		time.Sleep(time.Second)
		s.commit()
		members[2].kill()
		s.wipe()
		s.until("it runs again", 2*time.Minute, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Resume != nil && s.running(0, 2)(x)
		})
		s.end()
	})
}

// The lease of a spare has ended, but its loss was not reported, when the store, the spare and a
// member are lost together. The spare may have registered again, and a checkpoint may be on both.
// The others wait for one of them.
func TestWipedWhileASpareHasNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, members, spare := spared(t)
		s.commit()
		spare.client.Cut(true)
		s.until("its lease has ended", 20*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 3 })
		time.Sleep(time.Second)
		members[2].kill()
		spare.kill()
		s.wipe()
		time.Sleep(5 * time.Minute)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("made again without %s, whose loss was not reported: %+v", spare.node, snap.Job)
		}
		s.start("d")
		s.until("it runs again", 2*time.Minute, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Resume != nil && s.running(0, x.World.Count)(x)
		})
		s.end()
	})
}
