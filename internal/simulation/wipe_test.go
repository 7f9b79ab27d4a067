package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A store loses everything, or is set back, while nodes train. Their workers run on, the job is made again
// with its newest commit, and a node that is killed later is replaced.
func TestStoreLostUnderARunningJob(t *testing.T) {
	for name, lose := range map[string]func(*wiped, memory.Backup){
		"wiped":                  func(s *wiped, _ memory.Backup) { s.wipe() },
		"set back":               func(s *wiped, b memory.Backup) { s.setBack(b, true) },
		"replaced by an old one": func(s *wiped, b memory.Backup) { s.setBack(b, false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nodes := withCheckpoint(t, "2:3", "a", "b", "c")
				old := s.etcd.Backup()
				s.commit()
				lose(s, old)
				s.goesOn(s.workersOf(), 2)
				nodes[0].kill()
				s.until("it goes on without a", 15*time.Second, s.running(2, 2))
				s.end()
			})
		})
	}
}

// Rank 0 is killed in the moment in which the store is lost, after a commit of which no other node has
// heard. The others make the job again, with that commit, and go on without it.
func TestStoreLostWithRankZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2:3", "a", "b", "c")
		s.commit()
		nodes[0].kill()
		s.wipe()
		s.until("it goes on without a", 20*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 2)(x) && x.Job.Remade > 0 && x.World.Resume != nil && x.World.Resume.Number == 2
		})
		s.start("a") // its files are moved aside, and it joins as any node
		s.until("a is back", 30*time.Second, s.running(0, 3))
		s.end()
	})
}

// A node has opened a job, and has not read its secret when the server loses it. It joins the job that was
// made again. When that is lost, too, and only this node lives, the job that it makes again has its secret.
func TestANodeThatJoinsALostJobHasItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2:3", "a", "b")
		d := s.makeAgent("d")
		var reads atomic.Bool
		d.client.Fates(func(op memory.Op) memory.Fate {
			if op.Kind == memory.Get && strings.HasPrefix(op.Key, s.job.Name.Secret("")) && !reads.Load() {
				return memory.Fate{Lost: true}
			}
			return d.fate(op)
		})
		s.run(d)
		time.Sleep(5 * time.Second)
		s.wipe()
		time.Sleep(5 * time.Second)
		reads.Store(true)
		s.until("d trains", 30*time.Second, s.running(0, 3))
		nodes[0].kill()
		nodes[1].kill()
		s.wipe()
		s.until("d has made the job again", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return x.Job != nil })
		made := s.snapshot().Job.UID
		if _, err := rendezvous.ReadSecret(t.Context(), s.etcd.Client("test"), s.job.Name, made); err != nil {
			t.Errorf("%v\n%s", err, s.story())
		}
		s.end()
	})
}

// A server that does not answer while an agent compares its disk with it is asked again.
func TestAStarterAsksASlowServerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1", "a")
		nodes[0].kill()
		s.wipe()
		a, asked := s.makeAgent("a"), 0
		a.client.Fates(func(op memory.Op) memory.Fate {
			if op.Kind != memory.Get || !strings.HasPrefix(op.Key, "/elastic/removed/") {
				return a.fate(op)
			}
			asked++
			return memory.Fate{Lost: asked == 1}
		})
		s.run(a)
		<-a.done
		if a.result.Status != 94 || asked != 2 {
			t.Errorf("it ends with %+v after %d requests\n%s", a.result, asked, s.story())
		}
		s.end()
	})
}

// The job is recovered, and the first nodes that come know of the lost job and have no checkpoint of it. They
// wait for one that has it.
func TestRecoveredJobWaitsForACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1", "a")
		s.commit()
		nodes[0].kill()
		s.wipe()
		s.refused(s.start("a"))
		snap := s.snapshot()
		r := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
		if err := r.AllowResume(t.Context(), &snap, ""); err != nil {
			t.Fatal(err)
		}
		s.start("b")
		time.Sleep(20 * time.Second)
		if x := s.snapshot(); x.Job == nil || x.World != nil {
			t.Fatalf("b does not wait for a\n%s", s.story())
		}
		s.start("a")
		s.until("it goes on", 10*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 1)(x) && x.World.Resume != nil && x.World.Resume.Number == 2
		})
		s.end()
	})
}

// All agents died with the store. Each that starts is refused at once. When the operator recovers the job,
// it goes on from the newest checkpoint that the nodes have.
func TestWipedWhileAllWereDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		s.commit()
		nodes[0].kill()
		nodes[1].kill()
		s.wipe()
		if err := s.refused(s.start("a")); !problem.Is(err, problem.OtherServer) {
			t.Errorf("a is refused because of %v", err)
		}
		s.refused(s.start("b"))
		snap := s.snapshot()
		r := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
		if err := r.AllowResume(t.Context(), &snap, ""); err != nil {
			t.Fatal(err)
		}
		s.start("a")
		s.start("b")
		s.until("it goes on", 10*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 2)(x) && x.World.Resume != nil && x.World.Resume.Number == 2
		})
		s.end()
	})
}

// The store was set back while no agent lived: each one that starts and remembers more is refused.
// --resume removes the older state, and goes on from the newest checkpoint.
func TestSetBackWhileAllWereDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		old := s.etcd.Backup()
		s.commit()
		nodes[0].kill()
		nodes[1].kill()
		s.setBack(old, true)
		if err := s.refused(s.start("a")); !problem.Is(err, problem.StoreBehind) {
			t.Errorf("a is refused because of %v", err)
		}
		s.until("the leases are gone", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 0 })
		for _, name := range []string{"a", "b"} {
			x := s.makeAgent(name)
			x.cfg.Resume = true
			s.sim.run(x)
		}
		s.until("it goes on", 10*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 2)(x) && x.World.Resume != nil && x.World.Resume.Number == 2
		})
		s.end()
	})
}

// An operator recovers the job in the moment in which a node makes it: the job resumes.
func TestAJobIsRecoveredAsItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "1", 1)
		a := s.makeAgent("a")
		slow := true
		a.client.Fates(func(op memory.Op) (f memory.Fate) {
			if slow && slices.ContainsFunc(op.Txn.Then, func(w store.Write) bool { return w.Key == s.job.Name.Job() }) {
				slow, f.Delay = false, time.Second
			}
			return f
		})
		s.sim.run(a)
		time.Sleep(500 * time.Millisecond)
		r := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
		if err := r.AllowResume(t.Context(), &rendezvous.Snapshot{}, ""); err != nil {
			t.Fatal(err)
		}
		s.until("there is a job", 5*time.Second, func(x rendezvous.Snapshot) bool { return x.Job != nil })
		if !s.snapshot().Job.Resumes {
			t.Errorf("it begins from scratch\n%s", s.story())
		}
		s.end()
	})
}

// An operator recovered the job once. Later the store is set back to that job while no agent lives: the
// permission of that time, which the store still has, does not let a node in that has more.
func TestAnEarlierPermissionSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		client := s.etcd.Client("operator")
		allowed := store.Put(s.job.Name.Resume(), []byte("then "))
		if _, err := client.Txn(t.Context(), store.Txn{Then: []store.Write{allowed}}); err != nil {
			t.Fatal(err)
		}
		old := s.etcd.Backup()
		s.commit()
		nodes[0].kill()
		nodes[1].kill()
		s.setBack(old, true)
		if err := s.refused(s.start("a")); !problem.Is(err, problem.StoreBehind) {
			t.Errorf("a is refused because of %v", err)
		}
		s.end()
	})
}

// A node with a checkpoint of another server begins anew with --again, next to a node without one.
func TestAgainOnAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		nodes[0].kill()
		nodes[1].kill()
		s.wipe() // as another server
		s.start("c")
		x := s.makeAgent("a")
		x.cfg.Again = true
		s.sim.run(x)
		s.until("it trains from scratch", 3*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(1, 2)(x) && x.World.Resume == nil
		})
		if n := s.hosts["a"].aside("x"); n != 1 {
			t.Errorf("%d jobs were moved aside", n)
		}
		s.end()
	})
}

// A new node makes a job of that name in the moment in which the store is lost. The job of the nodes that
// live takes its place, and the new node joins it.
func TestANewcomerIsFasterThanThoseThatLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2:3", "a", "b")
		for _, a := range nodes {
			a.client.Cut(true)
		}
		s.wipe()
		s.start("d")
		s.until("d has made a job", 5*time.Second, func(x rendezvous.Snapshot) bool { return x.Job != nil })
		for _, a := range nodes {
			a.client.Cut(false)
		}
		s.until("all are in the job that was lost", 30*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 3)(x) && x.Job.Remade > 0 && x.Head.Number == 1
		})
		s.end()
	})
}

// A spare cannot write to its disk that the job has commits. It reports that once, tries less and less
// often, and reports when it succeeds.
func TestFullDiskIsTriedMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withCheckpoint(t, "1", "a")
		b := s.makeAgent("b")
		full := b.host.full
		b.client.Fates(func(op memory.Op) memory.Fate {
			if slices.ContainsFunc(op.Txn.Then, func(w store.Write) bool { return w.Key == b.s.job.Name.Node("b") }) {
				full(true) // it joins
			}
			return memory.Fate{}
		})
		s.sim.run(b)
		time.Sleep(5 * time.Minute)
		b.client.Fates(nil)
		s.mu.Lock()
		n := b.unwritten
		s.mu.Unlock()
		if n < 10 || n > 20 {
			t.Errorf("it was tried %d times in 5 minutes", n)
		}
		full(false)
		time.Sleep(31 * time.Second)
		if m, _ := b.disk.Recall("b", ""); m == nil || m.Known.Number != 1 {
			t.Errorf("it remembers %+v", m)
		}
		for _, line := range []string{"cannot write down the state of the job (write claim: ",
			"has written down the state of the job"} {
			if n := strings.Count(s.story(), line); n != 1 {
				t.Errorf("%q was said %d times\n%s", line, n, s.story())
			}
		}
		s.end()
	})
}

// A member with a full disk keeps the others waiting. It reports the reason once, however often it
// tries.
func TestFullDiskKeepsAMemberFromBeingReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1:3", 1)
		s.start("a")
		b := s.start("b")
		s.until("generation runs with both", 30*time.Second, func(r rendezvous.Snapshot) bool {
			return r.World != nil && r.World.Phase == rendezvous.Running && r.World.Count == 2
		})
		full := b.host.full
		full(true)
		s.start("c")
		s.until("three are to run", 10*time.Second,
			func(r rendezvous.Snapshot) bool {
				return r.World.Phase == rendezvous.Forming && r.World.Count == 3
			})
		time.Sleep(5 * time.Second)
		full(false)
		s.until("three run", 10*time.Second,
			func(r rendezvous.Snapshot) bool {
				return r.World.Phase == rendezvous.Running && r.World.Count == 3
			})
		if n := strings.Count(s.story(), "no space left on device; trying again"); n != 1 {
			t.Errorf("it was said %d times\n%s", n, s.story())
		}
		s.finish()
	})
}

// The disk of a node is full when the job is made again: its workers go on, it tries again, and it is in
// the job as soon as there is room.
func TestWipedWhileADiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		full := nodes[1].host.full
		before := s.workersOf()
		full(true)
		s.wipe()
		s.until("the job is made again", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return x.Job != nil && x.Job.Remade > 0 })
		time.Sleep(5 * time.Second)
		full(false)
		s.until("both are in it", 10*time.Second, func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 2 })
		if !slices.Equal(before, s.workersOf()) {
			t.Errorf("workers ended\n%s", s.story())
		}
		s.end()
	})
}

// A job that was removed is not made again by a node that was away.
func TestRemovedIsNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1", "a")
		a := nodes[0]
		a.kill()
		s.remove()
		s.start("a")
		s.until("another job runs", 30*time.Second, func(x rendezvous.Snapshot) bool {
			return x.Job != nil &&
				s.running(0, 1)(x)
		})
		if now := s.snapshot(); now.Job.Remade != 0 || now.Head.Number != 0 {
			t.Errorf("a removed job came back: %+v, head %d", now.Job, now.Head.Number)
		}
		s.end()
	})
}

// An agent that was frozen while its job was removed ends its workers, and itself.
func TestRemovedJobEndsReturningNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "1", 1)
		a := s.trains("a")[0]
		a.freeze()
		s.remove()
		a.thaw()
		select {
		case <-a.done:
		case <-time.After(30 * time.Second):
			t.Fatalf("it goes on\n%s", s.story())
		}
		if a.result.Status != 1 || !problem.Is(a.result.Err, problem.JobNone) {
			t.Errorf("it ended with %d, %v", a.result.Status, a.result.Err)
		}
	})
}

// TestWipes runs random schedules of commits, crashes, freezes, late answers, newcomers and wipes.
// The checks are those of made, and of finish; and a world runs when the faults are over, after the
// operator has recovered the job where no agent lived. COUNT and SEED as in TestSchedules.
func TestWipes(t *testing.T) {
	eachSeed(t, 60, wipes)
}

func wipes(t *testing.T, seed uint64) *sim {
	r := rand.New(rand.NewPCG(seed, 11))
	s := newWiped(t, []string{"2", "3", "2:3", "1:3"}[r.IntN(4)], seed)
	names := []string{"a", "b", "c", "d"}
	at := map[string]*simAgent{}
	up := func(name string) {
		if a := at[name]; a == nil || a.isDead() {
			at[name] = s.start(name)
		}
		if r.IntN(4) == 0 {
			at[name].harmRequests(true)
		}
	}
	for _, n := range names[:3] {
		up(n)
	}
	s.until("a first world runs", 2*time.Minute, func(x rendezvous.Snapshot) bool {
		return x.World != nil &&
			s.running(0, x.World.Count)(x)
	})
	old := s.etcd.Backup()
	left := 1 + r.IntN(3)
	for range 6 + r.IntN(10) {
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		name := names[r.IntN(len(names))]
		a := at[name]
		switch k := r.IntN(12); {
		case k < 4:
			s.commit()
		case k < 5:
			old = s.etcd.Backup()
		case k < 7 && left > 0:
			left--
			if r.IntN(2) == 0 {
				s.setBack(old, r.IntN(2) == 0)
			} else {
				s.wipe()
				old = s.etcd.Backup()
			}
			if r.IntN(3) == 0 { // all die with it
				for _, n := range names {
					if a := at[n]; a != nil {
						a.kill()
					}
				}
			}
		case a == nil || a.isDead():
			up(name)
		case k < 8:
			a.kill()
		case k < 10:
			a.freeze()
			time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
			a.thaw()
			a.upSince = time.Now()
		default:
			s.etcd.Freeze()
			time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
			s.etcd.Thaw()
			for _, a := range at {
				a.upSince = time.Now()
			}
		}
	}
	s.mu.Lock()
	s.tracef("faults end")
	s.mu.Unlock()
	for _, n := range names {
		if a := at[n]; a != nil {
			a.harmRequests(false)
		}
		if a := at[n]; a == nil || a.isDead() {
			at[n] = s.start(n)
		}
	}
	var tender tender
	s.until("a world runs again (G6)", 85*time.Second, func(x rendezvous.Snapshot) bool {
		s.tend(&tender, at, up, &x)
		w := x.World
		return w != nil && (w.Phase.Ended() || w.Phase == rendezvous.Running && s.running(0, w.Count)(x))
	})
	s.end()
	return s.sim
}
