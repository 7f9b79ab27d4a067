package runtime

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// setBack replaces the data of the store with an older copy. If not same, a new store with that
// copy replaces the store.
func (s *wiped) setBack(b memory.Backup, same bool) {
	if snap := s.snapshot(); snap.Job != nil {
		s.fence[snap.Job.UID] = max(s.fence[snap.Job.UID], snap.Fence)
	}
	s.mu.Lock()
	s.tracef("the store is set back")
	s.mu.Unlock()
	s.restore(b, same)
	snap := s.snapshot()
	if s.base = (rendezvous.World{}); snap.World != nil {
		s.base = *snap.World
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setBackAt = time.Now()
	if s.older = nil; snap.Job != nil {
		s.older = &snap.Fence
	}
	s.knew = s.knowMore(&snap)
}

// goesOn waits until the job runs on n nodes under a successor of the lost job, in a generation
// above g, from the newest acknowledged checkpoint.
func (s *wiped) goesOn(g schema.Generation, n int, limit time.Duration) {
	s.t.Helper()
	was := s.last
	acked := s.acked[was]
	s.until("it runs again above what was seen", limit, func(x rendezvous.Snapshot) bool {
		return x.Job != nil && x.Job.Follows(was) && x.World != nil && x.World.Generation > g &&
			s.running(0, n)(x)
	})
	snap := s.snapshot()
	if acked.Number > 0 && (snap.World.Resume == nil || snap.Head.Manifest != acked.Manifest ||
		snap.Head.Number <= acked.Number) {
		s.t.Errorf("checkpoint %d was acknowledged; head %+v, world resumes from %+v\n%s",
			acked.Number, snap.Head, snap.World.Resume, s.story())
	}
}

// Agents that live when the store is replaced with an older copy make the job again, above every
// generation and checkpoint that they saw. Their workers run until then.
func TestSetBackStore(t *testing.T) {
	for name, since := range map[string]func(s *wiped, b *simAgent){
		"commits":    func(s *wiped, _ *simAgent) { s.commit(); s.commit() },
		"generation": func(s *wiped, b *simAgent) { s.replace(b); s.commit() },
		"nothing":    func(s *wiped, _ *simAgent) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nodes := withCheckpoint(t, "2", "a", "b")
				b := nodes[1]
				old := s.etcd.Backup()
				time.Sleep(30 * time.Second)
				since(s, b)
				time.Sleep(time.Second) // the agents have seen it
				g := s.snapshot().World.Generation
				s.setBack(old, true)
				if name == "nothing" {
					time.Sleep(40 * time.Second)
					s.until("it runs", time.Second, s.running(0, 2))
				} else {
					s.goesOn(g, 2, 30*time.Second)
				}
				s.end()
			})
		})
	}
}

// replace kills a and waits until the next generation runs with its next life.
func (s *wiped) replace(a *simAgent) {
	s.t.Helper()
	w := s.snapshot().World
	a.kill()
	s.until("the others wait", 10*time.Second,
		func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
	s.start(a.name)
	s.until("the next generation runs", 30*time.Second, s.running(w.Generation+1, w.Count))
}

// A job is removed and begun anew, and then the store is set back to the removed job. The nodes make
// the newer job again, and nothing of the removed one comes back.
func TestSetBackToAJobThatWasRemoved(t *testing.T) {
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive=%t", alive), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nodes := withCheckpoint(t, "2", "a", "b")
				for range 4 {
					s.commit()
				}
				old, first := s.etcd.Backup(), s.snapshot()
				nodes[0].kill()
				nodes[1].kill()
				s.remove()
				nodes = s.trains("a", "b")
				s.commit()
				time.Sleep(time.Second) // the agents have seen it
				second := s.snapshot()
				if !alive {
					nodes[0].kill()
					nodes[1].kill()
				}
				s.setBack(old, true)
				if !alive {
					time.Sleep(time.Minute)
					s.start("a")
					s.start("b")
				}
				s.goesOn(second.World.Generation, 2, 85*time.Second)
				now := s.snapshot()
				if now.Job.Follows(first.Job.UID) || len(now.History) != 1 {
					t.Errorf("job %+v, history %+v", now.Job, now.History)
				}
				removed, err := (txn.Requests{Store: s.etcd.Client("x"), Job: "x"}).Removed(t.Context(), first.Job.UID)
				if err != nil || !removed {
					t.Errorf("the first job was removed: %t, %v", removed, err)
				}
				s.end()
			})
		})
	}
}

// All agents are down while the store is set back, or replaced with a store that has the older
// copy. What they remember is newer than what the store shows.
func TestSetBackWhileAllWereDead(t *testing.T) {
	for name, same := range map[string]bool{"the same store": true, "another store": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nodes := withCheckpoint(t, "2", "a", "b")
				a, b := nodes[0], nodes[1]
				old := s.etcd.Backup()
				s.replace(b)
				s.commit()
				for _, x := range s.agents {
					x.kill()
				}
				s.setBack(old, same)
				s.start(a.name)
				time.Sleep(5 * time.Second)
				s.start("c") // it was never in the job
				time.Sleep(5 * time.Second)
				s.start(b.name)
				s.goesOn(2, 2, 3*time.Minute)
				s.end()
			})
		})
	}
}

// A node that missed everything since the copy was made takes part when another node finds the
// store behind.
func TestSetBackAndOneSawNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		a, b := nodes[0], nodes[1]
		time.Sleep(time.Second)
		old := s.etcd.Backup()
		zero := s.agent(s.snapshot().World.Members[0])
		other := a
		if zero == a {
			other = b
		}
		other.client.Cut(true)
		s.commit()
		time.Sleep(time.Second) // one agent has seen it
		s.setBack(old, true)
		other.client.Cut(false)
		s.goesOn(1, 2, 30*time.Second)
		s.end()
	})
}

// All nodes are down, and the store is set back to a time at which two of them claimed the job. The
// third node comes first. Those claims do not show that their nodes are there.
func TestSetBackToClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "3", "a", "b", "c")
		last := nodes[2]
		last.kill()
		s.wipe()
		time.Sleep(10 * time.Second)
		if n := len(s.snapshot().Claims); n != 2 {
			t.Fatalf("%d claims", n)
		}
		old := s.etcd.Backup()
		s.start(last.name)
		s.until("it runs again", 90*time.Second, s.running(0, 3))
		s.commit()
		s.commit()
		g := s.snapshot().World.Generation
		if has := last.host.saved[last.node]; slices.ContainsFunc(has,
			func(h checkpoint.Head) bool { return h.Number == s.acked[s.last].Number }) {
			t.Fatalf("%s has the newest checkpoint", last.name)
		}
		for _, x := range s.agents {
			x.kill()
		}
		s.setBack(old, true)
		s.start(last.name)
		time.Sleep(20 * time.Second)
		s.start("a")
		s.start("b")
		s.goesOn(g, 3, 2*time.Minute)
		s.end()
	})
}

// A new node waits for a claimant, and the store is set back again, to a time without claims. The
// new node does not take that for the end of the claim.
func TestSetBackOnceMoreWhileItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1:3", "a", "b")
		old := s.etcd.Backup()
		s.commit()
		time.Sleep(time.Second)
		nodes[1].kill()
		s.setBack(old, true)
		s.until("it is claimed", 2*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Claims) == 1 })
		s.start("c")
		time.Sleep(2 * time.Second)
		s.setBack(old, true)
		time.Sleep(5 * time.Second)
		if now := s.snapshot(); now.Fence != 1 || len(now.Claims) != 1 {
			t.Errorf("fence %d, %d claims\n%s", now.Fence, len(now.Claims), s.story())
		}
		s.start("b")
		s.goesOn(1, 3, 2*time.Minute)
		s.end()
	})
}

// The store is set back to the first of two writes of a claim, on the same lease. The claim is
// written again.
func TestSetBackToAnOlderClaim(t *testing.T) { setBackToAnOlderClaim(t, false, "a", "b") }

// The same, and no other node writes.
func TestSetBackToAnOlderClaimOfOneNode(t *testing.T) { setBackToAnOlderClaim(t, false, "a") }

// The same, and the node reads the store again only after the store has passed the revision of its
// claim.
func TestSetBackToAnOlderClaimAndPassed(t *testing.T) { setBackToAnOlderClaim(t, true, "a", "b") }

func setBackToAnOlderClaim(t *testing.T, passed bool, names ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, fmt.Sprint(len(names)), names...)
		for _, other := range nodes[1:] {
			other.kill()
		}
		written, again := 0, make(chan struct{}, 1)
		nodes[0].client.Fates(func(op memory.Op) memory.Fate {
			if len(op.Txn.Then) != 1 || op.Txn.Then[0].Key != s.job.Name.Claim("a") {
				return memory.Fate{}
			}
			if written++; written == 2 {
				again <- struct{}{}
				return memory.Fate{Delay: 100 * time.Millisecond}
			}
			return memory.Fate{}
		})
		s.wipe()
		<-again
		old := s.etcd.Backup()
		time.Sleep(time.Second)
		nodes[0].client.Cut(passed)
		s.setBack(old, true)
		if passed {
			others, write := s.etcd.Client("others"), []store.Write{store.Put("/other", []byte("x"))}
			for range 30 {
				if _, err := others.Txn(t.Context(), store.Txn{Then: write}); err != nil {
					t.Fatal(err)
				}
			}
			nodes[0].client.Cut(false)
		}
		for _, name := range names[1:] {
			s.start(name)
		}
		s.until("it runs again", time.Minute, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Generation > 1 && s.running(0, len(names))(x)
		})
		s.end()
	})
}

// A node joins a job that was made again, and then hears nothing more from the store, so it knows
// no World. When all nodes are lost with the store, it waits for the nodes that made the job again.
func TestWipedAndOneKnowsNoWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withCheckpoint(t, "2:3", "a", "b")
		joined := false
		c := s.makeAgent("c")
		c.client.Fates(func(op memory.Op) memory.Fate {
			f := memory.Fate{Lost: joined}
			joined = joined || slices.ContainsFunc(op.Txn.Then,
				func(w store.Write) bool { return w.Key == s.job.Name.Node("c") && w.Value != nil })
			return f
		})
		s.wipe()
		s.sim.run(c)
		s.until("it runs again", 2*time.Minute, s.running(0, 2))
		c.host.saved["c"] = []checkpoint.Head{s.snapshot().Head} // it had a copy of it before
		s.commit()
		if m := c.host.memory["c"]; m.World != 0 || m.Job.UID != s.last {
			t.Fatalf("c knows World %d of job %s", m.World, m.Job.UID)
		}
		for _, x := range s.agents {
			x.kill()
		}
		s.wipe()
		s.start("c")
		time.Sleep(3 * time.Minute)
		if x := s.snapshot(); x.Job != nil {
			t.Errorf("c made the job again alone: %+v\n%s", x.Job, s.story())
		}
		s.start("a")
		s.start("b")
		s.goesOn(0, 3, 2*time.Minute)
		s.end()
	})
}

// A node is cut from the store while the job is claimed. The others make the job again and go on,
// and the store is set back to what the cut node saw last. That node must hear what became of the
// job before it makes the job again from its old read, even if it reaches the store seconds before
// the others.
func TestSetBackToClaimsThatACutNodeSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1:2", "a", "b")
		a, b := nodes[0], nodes[1]
		s.wipe()
		time.Sleep(3 * time.Second)
		if n := len(s.snapshot().Claims); n != 2 {
			t.Fatalf("%d claims", n)
		}
		old := s.etcd.Backup()
		a.client.Cut(true)
		s.until("b goes on alone", 2*time.Minute, s.running(0, 1))
		s.commit()
		s.commit()
		g := s.snapshot().World.Generation
		time.Sleep(20 * time.Second)
		b.client.Cut(true)
		s.setBack(old, true)
		a.client.Cut(false)
		time.Sleep(3 * time.Second)
		b.client.Cut(false)
		s.goesOn(g, 2, 2*time.Minute)
		s.end()
	})
}

// A node with a copy is away when the job is made again. The others lose their copies, and the
// store is set back. The node with the copy knows the job by its former uid, and claims it all the
// same.
func TestSetBackAndTheCopyIsOfTheFormerJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1:3", "a", "b", "c")
		zero := s.snapshot().World.Members[0].Node
		var away *simAgent
		for _, x := range nodes {
			if x.name != zero && len(x.host.saved[x.node]) > 0 {
				away = x
			}
		}
		away.kill()
		s.wipe()
		s.until("the others go on", 2*time.Minute, s.running(0, 2))
		for _, x := range nodes {
			if x != away {
				delete(x.host.saved, x.node)
			}
		}
		g := s.snapshot().World.Generation
		s.setBack(s.etcd.Backup(), false)
		s.until("it is claimed", 2*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Claims) == 2 })
		s.start(away.name)
		s.goesOn(g, 3, 2*time.Minute)
		s.end()
	})
}

// The store is lost together with the node of rank 0 and a spare, which have the copies of the
// newest commit. The other member has none. It waits for one of them, and does not begin from
// scratch.
func TestWipedAndACopyIsOnASpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "2", 1)
		s.trains("b", "c")
		s.start("a")
		s.until("the spare is here", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 3 })
		time.Sleep(5 * time.Second)
		s.commit()
		zero := s.snapshot().World.Members[0].Node
		first := map[string]string{"b": "c", "c": "b"}[zero]
		if len(s.hosts["a"].saved["a"]) != 1 || len(s.hosts[first].saved[first]) != 0 {
			t.Fatalf("the copies are not on %s and the spare", zero)
		}
		for _, x := range s.agents {
			if x.node != first {
				x.kill()
			}
		}
		s.wipe()
		time.Sleep(5 * time.Minute)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("made again without a copy: %+v\n%s", snap.Job, s.story())
		}
		s.start("a")
		s.until("it runs again", 2*time.Minute, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Resume != nil && s.running(0, 2)(x)
		})
		s.end()
	})
}

// One of two nodes is lost. The other one goes on with a new node, and both of these are lost with
// the store. The first node returns alone. It never heard of the new node, and waits for its
// partner without a limit.
func TestWipedAndOthersHadGoneOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		first := nodes[0]
		first.kill()
		s.start("c")
		s.until("the others go on", time.Minute, s.running(2, 2))
		s.commit()
		for _, x := range s.agents {
			x.kill()
		}
		s.wipe()
		s.start(first.name)
		time.Sleep(5 * time.Minute)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("made again without the others: %+v\n%s", snap.Job, s.story())
		}
		s.start(nodes[1].name)
		s.start("c")
		s.until("it runs again", 30*time.Second, s.running(3, 2))
		s.end()
	})
}

// A node dies with the store at the moment in which it proposes a generation, before it gets the
// answer. The number of that generation is not used again, because the node wrote it down before it
// sent the proposal.
func TestANumberIsNotGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "1", 1)
		s.program = func(g *simGroup) {
			if g.Start.World.Generation == 1 {
				g.later(3*time.Second, &event.WorkerExit{Code: 1})
			}
		}
		a := s.start("a")
		s.until("generation 1 runs", 30*time.Second, s.running(1, 1))
		proposed := make(chan struct{}, 1)
		a.client.Fates(func(op memory.Op) memory.Fate {
			if !slices.ContainsFunc(op.Txn.Then,
				func(w store.Write) bool { return w.Key == s.job.Name.Fence() }) {
				return memory.Fate{}
			}
			select {
			case proposed <- struct{}{}:
			default:
			}
			return memory.Fate{Mute: true}
		})
		<-proposed
		s.until("generation 2 is proposed", time.Second,
			func(x rendezvous.Snapshot) bool { return x.Fence == 2 })
		a.kill()
		s.wipe()
		s.start("a")
		s.until("it runs again", 2*time.Minute, s.running(0, 1))
		if g := s.snapshot().World.Generation; g != 3 {
			t.Errorf("generation 2 was proposed and lost, and the next one is %d\n%s", g, s.story())
		}
		s.end()
	})
}
