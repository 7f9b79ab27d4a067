package runtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The job is made again, and within a second the store is set back to before that, at the moment in
// which a new node joins. The members claim the job before the new node can find their earlier
// incarnations gone and go on from the older state.
func TestSetBackTwiceInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withCheckpoint(t, "1:2", "a", "b")
		old := s.etcd.Backup()
		s.commit()
		time.Sleep(time.Second) // the agents have seen it
		s.setBack(old, true)
		s.until("it was made again", 30*time.Second, func(x rendezvous.Snapshot) bool {
			return x.Fence > 1 && s.running(0, 2)(x)
		})
		g := s.snapshot().World.Generation
		s.setBack(old, true)
		was := s.snapshot()
		s.start("c")
		s.until("the members claim it", time.Second/2,
			func(x rendezvous.Snapshot) bool { return len(x.Claims) > 0 })
		s.until("the next World", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return x.World != nil && x.Fence > was.Fence })
		if x := s.snapshot(); x.Job.UID == was.Job.UID {
			t.Errorf("the new node goes on in generation %d", x.Fence)
		}
		s.until("it runs again", 30*time.Second, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Generation > g && s.running(0, 2)(x)
		})
		s.end()
	})
}
