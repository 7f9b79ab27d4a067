package runtime

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A store is wiped, and wiped again before a new node has seen any claim: the time that nodes of the
// lost job have to report begins anew.
func TestWipedAgainWhileANewNodeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "2", 1)
		nodes := s.trains("a", "b")
		s.commit()
		s.wipe()
		c := s.start("c")
		time.Sleep(10 * time.Millisecond)
		c.client.Cut(true)
		time.Sleep(5 * time.Second)
		for _, a := range nodes {
			a.freeze()
		}
		s.wipe()
		asked, once := make(chan struct{}), sync.Once{}
		c.client.Fates(func(op memory.Op) memory.Fate {
			once.Do(func() { close(asked) })
			return c.fate(op)
		})
		c.client.Cut(false)
		<-asked
		time.Sleep(time.Second)
		for _, a := range nodes {
			a.thaw()
		}
		s.goesOn(1, 2, 30*time.Second)
		s.end()
	})
}

// The job is made again twice, from the same claims: the store is lost once more before more than
// one node has heard of the first time. That node joins the others in the end.
func TestWipedAgainAfterOneHeardOfTheRemake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "1:2", 1)
		nodes := s.trains("a", "b")
		a, b := nodes[0], nodes[1]
		s.commit()
		s.wipe()
		was := s.last
		for snap := s.snapshot(); snap.Job == nil; snap = s.snapshot() {
			if len(snap.Claims) == 2 {
				b.client.Deaf(true) // it hears of nothing more
			}
			time.Sleep(time.Millisecond)
		}
		s.until("a joins the job that was made", 10*time.Second, func(x rendezvous.Snapshot) bool {
			return x.Node("a") != nil && x.Job.Follows(was)
		})
		a.freeze()
		s.wipe()
		b.client.Deaf(false)
		s.until("b makes it again", 3*time.Minute, func(x rendezvous.Snapshot) bool {
			return x.Job != nil && x.Job.Follows(was) && s.running(0, 1)(x)
		})
		a.thaw()
		s.until("both run", time.Minute, s.running(0, 2))
		s.end()
	})
}
