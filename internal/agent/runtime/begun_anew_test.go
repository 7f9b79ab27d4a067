package runtime

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// lostWithItsNodes is a job with checkpoint 1 as it was when its nodes a and b died with the store.
func lostWithItsNodes(t *testing.T) (*wiped, rendezvous.Snapshot) {
	t.Helper()
	s, nodes := withCheckpoint(t, "2", "a", "b")
	was := s.snapshot()
	for _, a := range nodes {
		a.kill()
	}
	s.wipe()
	return s, was
}

// goesOnWith waits until the node is in the job.
func (s *wiped) goesOnWith(a *simAgent) {
	s.t.Helper()
	s.until(a.name+" is in it", time.Minute, func(x rendezvous.Snapshot) bool { return x.Node(a.name) != nil })
	if a.isDead() {
		s.t.Errorf("%s ended with %v", a.name, a.result)
	}
}

// newcomer starts a node that was never in the job, and returns when it has begun that anew in a store
// that was wiped. It is too few to train.
func (s *wiped) newcomer(name string) *simAgent {
	s.t.Helper()
	x := s.start(name)
	s.until(name+" has begun the job anew", 2*time.Minute, func(x rendezvous.Snapshot) bool {
		return x.Node(name) != nil && len(x.Job.Predecessors()) == 0
	})
	return x
}

// wasBegunAnew expects the job of before, with the checkpoint and the nodes that it had.
func (s *wiped) wasBegunAnew(t *testing.T, was, anew rendezvous.Snapshot) {
	t.Helper()
	now := s.snapshot()
	if !now.Job.Follows(was.Job.UID) || !now.Job.Follows(anew.Job.UID) ||
		now.Head.Manifest != was.Head.Manifest {
		t.Errorf("job %+v, head %+v: it was %+v, head %+v", now.Job, now.Head, was.Job, was.Head)
	}
}

// All agents died with the store. The first to come back is a new machine, which begins the job anew
// and waits for more nodes. The job that the others were in takes its place.
func TestWipedAndBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		c := s.newcomer("c")
		anew := s.snapshot()
		s.start("a")
		time.Sleep(time.Minute)
		if x := s.snapshot(); x.Job.UID != anew.Job.UID || x.World != nil {
			t.Errorf("without b: %+v", x)
		}
		s.start("b")
		s.until("it runs again", time.Minute, s.running(2, 2))
		s.wasBegunAnew(t, was, anew)
		s.goesOnWith(c)
		s.end()
	})
}

// The agents live, and are cut from the store while it is wiped and a new machine begins the job anew.
func TestWipedAndBegunAnewWhileAllAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		was := s.snapshot()
		for _, a := range nodes {
			a.client.Cut(true)
		}
		s.wipe()
		s.newcomer("c")
		anew := s.snapshot()
		for _, a := range nodes {
			a.client.Cut(false)
		}
		s.until("it runs again", time.Minute, s.running(2, 2))
		s.wasBegunAnew(t, was, anew)
		s.end()
	})
}

// A machine begins the job anew, makes that again alone when the store is lost once more, and loses it a
// third time: the job that ran still comes before it, and the machine goes on there.
func TestBegunAnewAndWipedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		c := s.newcomer("c")
		anew := s.snapshot()
		s.wipe()
		s.until("c makes it again", 2*time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Job != nil && x.Job.Follows(anew.Job.UID) })
		s.start("a")
		s.until("a claims its own", time.Minute, func(x rendezvous.Snapshot) bool { return len(x.Claims) > 0 })
		s.wipe()
		s.start("b")
		s.until("it runs again", 2*time.Minute, s.running(2, 2))
		s.wasBegunAnew(t, was, anew)
		s.goesOnWith(c)
		s.end()
	})
}

// The machine that began the job anew stands still until the other job is back. It goes on there.
func TestBegunAnewByANodeThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		c := s.newcomer("c")
		anew := s.snapshot()
		c.freeze()
		s.start("a")
		s.start("b")
		s.until("it runs again", 2*time.Minute, s.running(2, 2))
		s.wasBegunAnew(t, was, anew)
		c.thaw()
		s.goesOnWith(c)
		s.end()
	})
}

// A claimant that goes again leaves the job to those that began it anew.
func TestBegunAnewAndTheClaimantGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := lostWithItsNodes(t)
		s.newcomer("c")
		a := s.start("a")
		s.until("a claims it", time.Minute, func(x rendezvous.Snapshot) bool { return len(x.Claims) > 0 })
		time.Sleep(time.Second)
		s.start("d")
		time.Sleep(10 * time.Second)
		if x := s.snapshot(); x.World != nil {
			t.Errorf("it began while it was claimed: %+v", x.World)
		}
		a.kill()
		s.until("it begins", time.Minute, s.running(1, 2))
		s.end()
	})
}

// A job that was removed does not take the place of one that was begun since then.
func TestRemovedAndBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		nodes[0].kill()
		nodes[1].kill()
		s.remove()
		s.newcomer("c")
		uid := s.snapshot().Job.UID
		s.start("a")
		s.until("it begins", time.Minute, s.running(1, 2))
		if x := s.snapshot(); x.Job.UID != uid || x.Head.Number != 0 {
			t.Errorf("job %+v, head %+v", x.Job, x.Head)
		}
		s.end()
	})
}

// A node that began the job anew with other settings is refused in the job that took its place.
func TestBegunAnewWithOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := lostWithItsNodes(t)
		c := s.makeAgent("c")
		c.cfg.Job.Slots = 3
		c.cfg.Given = map[string]bool{"nproc-per-node": true}
		s.sim.run(c)
		s.until("c has begun the job anew", 2*time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Node("c") != nil && x.Job.Slots == 3 })
		s.start("a")
		s.start("b")
		s.until("it runs again", time.Minute, s.running(2, 2))
		select {
		case <-c.done:
		case <-time.After(time.Minute):
			t.Fatalf("c goes on\n%s", s.story())
		}
		if c.result.Status != 2 || !strings.Contains(c.result.Err.Error(), "nproc-per-node") {
			t.Errorf("it ended with %d, %v", c.result.Status, c.result.Err)
		}
		s.end()
	})
}
