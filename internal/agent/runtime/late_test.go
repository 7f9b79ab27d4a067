package runtime

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// All nodes are lost, the store is set back, and new nodes go on from what it shows. A node that
// has newer checkpoints comes late. It takes part, offers the newest of them, and does not undo the
// work of the new nodes.
func TestNodeThatComesLateOffersWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, seedOf(2), someFaults())
		old := s.threeSaves()
		uid, late := s.snapshot().Job.UID, checkpoint.Head{}
		s.lose("set back", func() {
			late = s.snapshot().Head
			s.at["a"].kill()
			s.at["b"].kill()
			s.restore(old, true)
		})
		s.up("c")
		s.up("d")
		s.runs(time.Minute)
		s.up("b")
		s.until("it is offered", 2*time.Minute, func(x rendezvous.Snapshot) bool {
			return slices.ContainsFunc(x.History,
				func(h checkpoint.Head) bool { return h.Offered && h.Manifest == late.Manifest })
		})
		if now := s.snapshot(); now.Job.UID != uid {
			t.Errorf("the job was made again: %+v\n%s", now.Job, s.story())
		}
		s.close()
	})
}

// All nodes are lost, the store is set back, and new nodes make as many commits as the lost ones
// had, at earlier steps. A node that returns then still offers its newest checkpoint.
func TestNodeThatWasPassedOverOffersWhatItKnows(t *testing.T) {
	for seed := uint64(0); ; seed++ {
		if seed > 500 {
			t.Fatal("no story has as many commits of earlier steps")
		}
		passed := false
		if rand.New(rand.NewPCG(seed, 13)).IntN(5) == 0 { // of two nodes
			synctest.Test(t, func(t *testing.T) { passed = passedOver(t, seed) })
		}
		if passed {
			return
		}
	}
}

// passedOver reports whether the new nodes committed as often at earlier steps.
func passedOver(t *testing.T, seed uint64) bool {
	t.Helper()
	s := newFaulty(t, seed, someFaults())
	s.layout = layoutMarked
	defer s.close()
	old, late := s.threeSaves(), checkpoint.Head{}
	s.lose("set back", func() {
		late = s.snapshot().Head
		s.at["a"].kill()
		s.at["b"].kill()
		s.restore(old, true)
	})
	s.up("c")
	s.up("d")
	s.until("they have committed as often", time.Minute,
		func(x rendezvous.Snapshot) bool { return x.Head.Number >= late.Number })
	if !late.LaterStep(s.snapshot().Head) {
		return false
	}
	s.up("a")
	s.until("a offers what it knows", time.Minute, func(x rendezvous.Snapshot) bool {
		return slices.ContainsFunc(x.History,
			func(h checkpoint.Head) bool { return h.Offered && h.Manifest == late.Manifest })
	})
	return true
}

// threeSaves starts a and b, and waits until three saves are committed. It returns a copy of the store
// from before them.
func (s *faulty) threeSaves() memory.Backup {
	s.t.Helper()
	s.up("a")
	s.up("b")
	s.runs(time.Minute)
	old := s.etcd.Backup()
	s.until("three saves are committed", time.Minute,
		func(x rendezvous.Snapshot) bool { return x.Head.Number >= 3 })
	return old
}

// The store is set back while one node is down and the other one is cut from it. The node that
// returns remembers more than the store shows. The answer of its partner does not mean that the job
// goes on from there.
func TestMemberThatIsCutFromTheStoreDoesNotGoOn(t *testing.T) {
	// the registration of a is there, or ended
	for _, back := range []time.Duration{time.Second, 5 * time.Second} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFaulty(t, seedOf(5), someFaults())
				old := s.threeSaves()
				s.at["b"].kill()
				s.keepStoreFrom(s.at["a"], true)
				s.lose("set back", func() { s.restore(old, true) })
				time.Sleep(back)
				s.up("b")
				time.Sleep(20 * time.Second)
				s.keepStoreFrom(s.at["a"], false)
				s.runs(time.Minute)
				s.settled()
				s.close()
			})
		})
	}
}

// The store is set back to before the removal of a checkpoint, so new nodes would begin from one
// that no disk has. The nodes with newer checkpoints do not come late then: the job is made again
// from the newest.
func TestNodeThatComesToAJobThatCannotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, seedOf(2), someFaults())
		s.up("a")
		s.up("b")
		s.runs(time.Minute)
		s.until("a save is committed", time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Head.Number > 0 })
		old, uid := s.etcd.Backup(), s.snapshot().Job.UID
		s.until("its record is removed", time.Minute, func(x rendezvous.Snapshot) bool {
			return !slices.ContainsFunc(x.History, func(h checkpoint.Head) bool { return h.Number == 1 })
		})
		time.Sleep(time.Second) // and it is removed from the disks
		newest := checkpoint.Head{}
		s.lose("set back", func() {
			newest = s.snapshot().Head
			s.at["a"].kill()
			s.at["b"].kill()
			s.restore(old, true)
		})
		s.up("c")
		s.up("d")
		s.until("nodes without a checkpoint are to begin", time.Minute, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Phase == rendezvous.Forming && len(x.Nodes) == 2
		})
		s.up("a")
		s.up("b")
		s.runs(25 * time.Second)
		if now := s.snapshot(); !now.Job.Follows(uid) || now.Head.Step == nil ||
			*now.Head.Step < *newest.Step {
			t.Errorf("%+v goes on from %+v, the newest was %+v\n%s", now.Job, now.Head, newest, s.story())
		}
		s.close()
	})
}

// The store is set back while both nodes are away, and then lost with them. In between a goes on from
// what the store shows, because it was away when b made the newer commits. Those of b have larger
// numbers, and those of a were made later. The job goes on from the newest of a, and b offers its own.
func TestSetBackAndThenLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x := twoHistories(t)
		s.lose("wiped", func() {
			x.newest = s.snapshot().Head
			s.at["a"].kill()
			s.etcd.Wipe()
		})
		s.up("b")
		s.up("a")
		s.keeps(x)
		s.close()
	})
}

// As before, but the store is not lost: it is set back a second time, to the copy that has the
// commits of b. Its revisions, generations and numbers are larger than those that a knows.
func TestSetBackToTheOtherHistory(t *testing.T) {
	for name, lives := range map[string]bool{"a lives": true, "a is killed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, x := twoHistories(t)
				s.lose("set to the other copy", func() {
					if x.newest = s.snapshot().Head; !lives {
						s.at["a"].kill()
					}
					s.restore(x.other, true)
				})
				if !lives {
					s.up("b")
					s.up("a")
				} else {
					s.until("a claims the job", time.Minute, func(now rendezvous.Snapshot) bool {
						return slices.ContainsFunc(now.Claims,
							func(c rendezvous.Claim) bool { return c.Node == "a" })
					})
					s.up("b")
				}
				s.keeps(x)
				s.close()
			})
		})
	}
}

// histories are two histories of a job.
type histories struct {
	late, newest checkpoint.Head // the newest commits of b and of a; a made its own later
	other        memory.Backup   // the store with the commits of b
}

// twoHistories has b make commits that are forgotten, and then a, which was away, makes others. a runs.
func twoHistories(t *testing.T) (s *faulty, x histories) {
	t.Helper()
	s = newFaulty(t, seedOf(6), someFaults()) // of one node or two
	s.layout = layoutMarked
	s.threeSaves()
	old := s.etcd.Backup()
	s.at["a"].kill()
	commits := func(least checkpoint.Number) (h checkpoint.Head) {
		s.until("the job commits", 5*time.Minute, func(x rendezvous.Snapshot) bool {
			h = x.Head
			return h.Number >= least && s.running(0, 1)(x) && x.Head.Generation == x.World.Generation
		})
		return h
	}
	commits(8)
	s.lose("set back", func() {
		x.late = s.snapshot().Head
		s.at["b"].kill()
		x.other = s.etcd.Backup()
		s.restore(old, true)
	})
	s.up("a")
	x.newest = commits(1)
	if x.newest.Number >= x.late.Number {
		t.Fatalf("a has made %d commits, and b %d", x.newest.Number, x.late.Number)
	}
	return s, x
}

// keeps waits until the job is made again. It goes on from the commit that was made last, and the other
// one is offered.
func (s *faulty) keeps(x histories) {
	s.t.Helper()
	made := rendezvous.Snapshot{}
	s.until("the job is made again", 2*time.Minute, func(now rendezvous.Snapshot) bool {
		made = now
		return now.Job != nil && now.Job.Succeeds != ""
	})
	if made.Head.Manifest != x.newest.Manifest {
		s.t.Errorf("it goes on from %+v, the newest is %+v\n%s", made.Head, x.newest, s.story())
	}
	s.until("the other one is offered", 2*time.Minute, func(now rendezvous.Snapshot) bool {
		return slices.ContainsFunc(now.History,
			func(h checkpoint.Head) bool { return h.Offered && h.Manifest == x.late.Manifest })
	})
}

// The store is lost while a node that has taken its name is about to register. Its data goes on
// with the job, and its saves are committed.
func TestWipedWhileANodeRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, seedOf(2), someFaults())
		s.threeSaves()
		s.at["b"].kill()
		b, asked := s.makeAgent("b"), make(chan struct{}, 1)
		b.client.Fates(func(op memory.Op) memory.Fate {
			joins := func(w store.Write) bool { return w.Key == s.job.Name.Node("b") }
			if slices.ContainsFunc(op.Txn.Then, joins) && len(asked) == 0 {
				asked <- struct{}{}
				return memory.Fate{Held: true}
			}
			return memory.Fate{}
		})
		s.sim.run(b)
		s.at["b"] = b
		s.until("b asks to be registered", time.Minute, func(rendezvous.Snapshot) bool { return len(asked) > 0 })
		uid := s.snapshot().Job.UID
		s.lose("wiped", s.etcd.Wipe)
		s.until("the job is made again", time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Job != nil && x.Job.Follows(uid) })
		b.client.Release()
		s.until("both run", time.Minute, s.running(0, 2))
		s.settled()
		s.at["a"].kill()
		s.up("c")
		s.until("b is rank 0 beside c", time.Minute, func(x rendezvous.Snapshot) bool {
			return s.running(0, 2)(x) && x.World.Members[0].Node == "b"
		})
		s.goesOn()
		s.close()
	})
}

// A machine with an empty disk joins while the store, which was set back, shows the registration of
// the machine before it. When the job is made again, its agent gets the secret of that job.
func TestSetBackAndADiskIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, seedOf(2), someFaults())
		named := func(id string) {
			s.hosts["a"] = newHost(id)
			s.hosts["a"].node = "x" // --node
		}
		named("a")
		old := s.threeSaves()
		s.at["a"].kill()
		named("a-new")
		s.lose("set back", func() { s.restore(old, true) })
		s.up("a")
		s.until("both run", 2*time.Minute, s.running(0, 2))
		s.goesOn()
		s.close()
	})
}

// seedOf is a seed of a simulation of n nodes.
func seedOf(n int) (seed uint64) {
	for rand.New(rand.NewPCG(seed, 13)).IntN(5) != n-2 {
		seed++
	}
	return seed
}
