package runtime

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// lostWithItsNodes is a job with checkpoint 1 whose nodes a and b died with the store.
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

// newcomer starts a node that was never in the job, in a wiped store. It returns when that node has
// made the job from scratch. One node is too few to train.
func (s *wiped) newcomer(name string) *simAgent {
	s.t.Helper()
	x := s.start(name)
	s.until(name+" has begun the job anew", 2*time.Minute, func(x rendezvous.Snapshot) bool {
		return x.Node(name) != nil && len(x.Job.Predecessors()) == 0
	})
	return x
}

// wasBegunAnew expects the earlier job, with its checkpoint and nodes.
func (s *wiped) wasBegunAnew(t *testing.T, was, anew rendezvous.Snapshot) {
	t.Helper()
	s.wasMadeAgain(t, was)
	if now := s.snapshot(); !now.Job.Follows(anew.Job.UID) {
		t.Errorf("job %+v does not go on as %+v", anew.Job, now.Job)
	}
}

// wasMadeAgain expects a job that goes on with what the lost one had.
func (s *wiped) wasMadeAgain(t *testing.T, was rendezvous.Snapshot) {
	t.Helper()
	if now := s.snapshot(); !now.Job.Follows(was.Job.UID) || now.Head.Manifest != was.Head.Manifest {
		t.Errorf("job %+v, head %+v: it was %+v, head %+v", now.Job, now.Head, was.Job, was.Head)
	}
}

// All agents died with the store. A new machine comes first, makes the job from scratch, and waits
// for more nodes. The job of the other nodes then replaces it.
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

// addMember writes to the disks that the newest World had a third member, c, which died before it
// heard of any World.
func (s *wiped) addMember(was *rendezvous.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{"a", "b"} {
		h := s.hosts[name]
		m := h.memory[name]
		m.World, m.Generation, m.Count, m.Members = 2, 2, 3, []string{"a", "b", "c"}
		h.memory[name], h.seen[name] = m, 2
	}
	h := newHost("c")
	h.memory["c"], h.salvaged["c"] = rendezvous.NewClaim("c", *was.Job, was.Wish, nil), was.Job.UID
	s.hosts["c"] = h
}

// A member of the newest World died before it heard of any World. It claims the lost job with the
// others, although what it knows alone would not replace the job of the new machine.
func TestBegunAnewAndAMemberKnowsNoWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		s.addMember(&was)
		s.newcomer("d")
		anew := s.snapshot()
		s.start("a")
		s.start("b")
		s.until("a and b claim it", time.Minute, func(x rendezvous.Snapshot) bool { return len(x.Claims) > 1 })
		s.start("c")
		s.until("it runs again", time.Minute, s.running(3, 2))
		s.wasBegunAnew(t, was, anew)
		s.end()
	})
}

// leftForAnotherJob is addMember, and that member is in the job that a new machine has made since. That
// machine is gone.
func (s *wiped) leftForAnotherJob(was *rendezvous.Snapshot) *simAgent {
	s.t.Helper()
	s.addMember(was)
	d := s.newcomer("d")
	d.kill()
	s.until("d is gone", time.Minute, func(x rendezvous.Snapshot) bool { return x.Node("d") == nil })
	c := s.start("c")
	s.goesOnWith(c)
	return c
}

// That member comes before the others, and is in the job of the new machine, alone. The others do not
// wait for it, because it had no part in their World. It goes on in their job.
func TestBegunAnewAndAMemberIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		c := s.leftForAnotherJob(&was)
		anew := s.snapshot()
		s.start("a")
		s.start("b")
		s.until("it runs again", time.Minute, s.running(3, 2))
		s.wasBegunAnew(t, was, anew)
		s.goesOnWith(c)
		s.end()
	})
}

// That member is about to join the job of the new machine, and cannot yet. It does not go back to its job,
// because its agent uses the data of the other one, and the others do not wait for it.
func TestBegunAnewAndAMemberIsAboutToJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, was := lostWithItsNodes(t)
		s.addMember(&was)
		s.newcomer("d")
		anew := s.snapshot()
		c := s.makeAgent("c")
		c.sweep = errors.New("a process does not end")
		s.sim.run(c)
		time.Sleep(5 * time.Second)
		s.start("a")
		s.start("b")
		s.until("it runs again", time.Minute, s.running(3, 2))
		s.wasBegunAnew(t, was, anew)
		s.mu.Lock()
		c.sweep = nil
		s.mu.Unlock()
		s.goesOnWith(c)
		s.end()
	})
}

// That member is started again after the others, in a new process. It takes back what it left, and claims
// their job.
func TestBegunAnewAndAMemberTakesItsJobBack(t *testing.T) {
	for name, loses := range map[string]func(*wiped, *simHost){
		"as it was":                func(*wiped, *simHost) {},
		"its other job is removed": func(s *wiped, _ *simHost) { s.remove() },
		"it stopped as it joined":  func(_ *wiped, h *simHost) { delete(h.memory, "c") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, was := lostWithItsNodes(t)
				c := s.leftForAnotherJob(&was)
				c.kill()
				s.mu.Lock()
				h := s.hosts["c"]
				s.mu.Unlock()
				loses(s, h)
				s.start("a")
				s.start("b")
				s.until("a and b claim it", time.Minute,
					func(x rendezvous.Snapshot) bool { return len(x.Claims) > 1 })
				c = s.start("c")
				s.until("it runs again", time.Minute, s.running(3, 2))
				s.wasMadeAgain(t, was)
				s.goesOnWith(c)
				s.end()
			})
		})
	}
}

// The job of the new machines ran, and a node of the lost job was in it. When the operator has removed it,
// that node goes back to the lost job, which another one claims. If it came first, it has made one more job,
// and goes back when it is started again.
func TestBegunAnewAndRemovedAfterItRan(t *testing.T) {
	for name, first := range map[string]bool{"that node comes first": true, "it comes last": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, was := lostWithItsNodes(t)
				d, e := s.newcomer("d"), s.start("e")
				s.until("it runs", time.Minute, s.running(1, 2))
				a := s.start("a")
				s.goesOnWith(a)
				for _, x := range []*simAgent{a, d, e} {
					x.kill()
				}
				s.remove()
				if first {
					a = s.start("a")
					s.goesOnWith(a)
				}
				s.start("b")
				s.until("b claims it", time.Minute, func(x rendezvous.Snapshot) bool { return len(x.Claims) > 0 })
				if first {
					time.Sleep(time.Minute)
					if x := s.snapshot(); x.World != nil {
						t.Errorf("it goes on without what a has: %+v", x.World)
					}
					a.kill()
				}
				s.start("a")
				s.until("it runs again", time.Minute, s.running(2, 2))
				s.wasMadeAgain(t, was)
				s.end()
			})
		})
	}
}

// The agents live, but are cut from the store while it is wiped and a new machine makes the job
// from scratch.
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

// A new machine makes the job from scratch, makes it again alone after the store is lost a second
// time, and loses it a third time. The job that ran still outranks it, and the machine goes on in
// that job.
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

// The machine that made the job from scratch is stopped until the other job is back. It goes on in
// that job.
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

// If the claimant leaves, the job that was made from scratch goes on.
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

// A job that was removed does not replace one that was made later.
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

// A node that made the job from scratch with other settings is refused in the job that replaced it.
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
