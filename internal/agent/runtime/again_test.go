package runtime

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A store is wiped again before a new node has seen any claim. The new node then waits anew for
// nodes of the lost job.
func TestWipedAgainWhileANewNodeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
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
		time.Sleep(time.Second / 2)
		if x := s.snapshot(); x.Job != nil {
			t.Errorf("the new node has made job %s, and did not wait for claims", x.Job.UID)
		}
		time.Sleep(time.Second / 2)
		for _, a := range nodes {
			a.thaw()
		}
		s.goesOn(1, 2, 30*time.Second)
		s.end()
	})
}

// The job is made again twice, from the same claims: the store is lost a second time when only one
// node has heard of the first new job. That node joins the others in the end.
func TestWipedAgainAfterOneHeardOfTheRemake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1:2", "a", "b")
		a, b := nodes[0], nodes[1]
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

// A proposal of the first World is on its way when the store is set back, and arrives while the job
// is claimed. When the store is set back a second time, the claimant knows that World and its
// members, and waits for no other node.
func TestSetBackAndAProposalArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "1:3", 1)
		a := s.makeAgent("a")
		proposed, lapses := make(chan struct{}, 1), false
		a.client.Fates(func(op memory.Op) memory.Fate {
			writes := func(key string) bool {
				return slices.ContainsFunc(op.Txn.Then, func(w store.Write) bool { return w.Key == key })
			}
			switch {
			case writes(s.job.Name.World()) && len(proposed) == 0:
				proposed <- struct{}{}
				return memory.Fate{Held: true}
			case lapses && writes(s.job.Name.Claim("a")):
				return memory.Fate{Delay: 100 * time.Millisecond}
			}
			return memory.Fate{}
		})
		s.sim.run(a)
		s.until("the first World is proposed", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 1 && len(proposed) == 1 })
		old := s.etcd.Backup()
		s.setBack(old, false)
		s.until("it is claimed", 5*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Claims) == 1 && x.Claims[0].Looked })
		lapses = true
		if err := s.etcd.Client("lease").Revoke(t.Context(), s.snapshot().Claims[0].Lease); err != nil {
			t.Fatal(err)
		}
		a.client.Release()
		s.until("it is claimed again", 5*time.Second, func(x rendezvous.Snapshot) bool {
			return x.Fence == 1 && len(x.Claims) == 1 && x.Claims[0].Looked && x.Claims[0].World == 1
		})
		s.setBack(old, false)
		s.until("a world runs", 25*time.Second, s.running(0, 1))
		s.end()
	})
}
