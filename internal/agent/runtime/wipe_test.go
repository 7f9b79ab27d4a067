package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// wiped is a simulation with checkpoints, and with a store that may lose everything.
type wiped struct {
	*sim
	acked map[schema.UID]checkpoint.Head // the newest commit of each job that was read back
	last  schema.UID                     // of the job that was made last
	stop  context.CancelFunc
	fence map[schema.UID]schema.Generation // as it was when the store was wiped or set back
	known map[schema.UID]*rendezvous.Job   // jobs that were made
	older *schema.Generation               // the fence of a store that was set back; nil: made again
	two   bool                             // the job has two histories: numbers of checkpoints were given twice
	anew  bool                             // a job was made from scratch after the first one was lost

	setBackAt time.Time // when the store was set back last
}

func newWiped(t *testing.T, np string, seed uint64) *wiped {
	s := &wiped{sim: newSim(t, np, seed), acked: map[schema.UID]checkpoint.Head{},
		fence: map[schema.UID]schema.Generation{}, known: map[schema.UID]*rendezvous.Job{}}
	s.settle = schema.SettleTime
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	go s.follow(ctx, s.matters, s.made)
	return s
}

// trains starts nodes, and returns when generation 1 runs with all of them.
func (s *wiped) trains(names ...string) (nodes []*simAgent) {
	s.t.Helper()
	for _, name := range names {
		nodes = append(nodes, s.start(name))
	}
	s.until("generation 1 runs", 30*time.Second, s.running(1, len(names)))
	return nodes
}

// withCheckpoint is a job that trains on nodes and has checkpoint 1.
func withCheckpoint(t *testing.T, np string, names ...string) (*wiped, []*simAgent) {
	t.Helper()
	s := newWiped(t, np, 1)
	nodes := s.trains(names...)
	s.commit()
	return s, nodes
}

// commit saves on the node of rank 0 and on one more, if there are such nodes. An agent commits for
// its own job, whatever an older store shows.
func (s *wiped) commit() {
	snap := s.snapshot()
	w := snap.World
	if w == nil || w.Phase != rendezvous.Running {
		return
	}
	zero := s.agent(w.Members[0])
	me := snap.Node(w.Members[0].Node)
	if zero == nil || me == nil || !me.Same(w.Members[0]) {
		return
	}
	s.mu.Lock()
	saved := zero.host.saved[zero.node]
	behind := len(saved) > 0 && saved[len(saved)-1].Number > snap.Head.Number
	inJob := zero.host.salvaged[zero.node] == w.UID
	s.mu.Unlock()
	if !inJob || behind {
		return // as checkpoint.Replicator does: the store shows less than this disk knows
	}
	holders, at := []membership.Node{*me}, []*simAgent{zero}
	for _, n := range snap.Nodes {
		if a := s.agent(n.Ref); a != nil && a != zero && len(at) < 2 {
			holders, at = append(holders, n), append(at, a)
		}
	}
	h := checkpoint.Head{Generation: w.Generation, Order: w.Order.Next(time.Now()), Time: time.Now()}
	s.mu.Lock()
	s.rng.bytes(h.Manifest[:])
	s.mu.Unlock()
	r := &checkpoint.Record{Store: zero.client, Job: s.job.Name, UID: w.UID, Self: zero.node}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	head, err := r.Commit(ctx, h, snap.Head, holders)
	if err != nil && !store.Moved(err) { // it may be applied, now or later, so the disks get it too
		time.Sleep(mostDelay + 100*time.Millisecond)
		head, err = s.snapshot().Head, nil
	}
	if err != nil || head.Manifest != h.Manifest {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracef("checkpoint %d is committed", head.Number)
	s.acked[w.UID] = head
	for _, a := range at {
		if a.host.salvaged[a.node] == w.UID {
			a.host.saved[a.node] = append(a.host.saved[a.node], head)
		}
	}
	go s.tidy(zero, w.UID, head)
}

// tidy reads the record a moment after a commit, as checkpoint.Replicator does on the node that made
// it.
func (s *wiped) tidy(a *simAgent, job schema.UID, made checkpoint.Head) {
	select {
	case <-a.done:
		return
	case <-time.After(time.Second):
	}
	if now := s.snapshot(); now.Job == nil || now.Job.UID != job || now.Head.Number >= made.Number {
		return
	}
	select {
	case a.behind <- struct{}{}:
	default:
	}
}

// agent returns the living agent of that incarnation.
func (s *wiped) agent(r membership.Ref) *simAgent {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		if a.hello.Incarnation == r.Incarnation && !a.isDead() && a.frozen == nil {
			return a
		}
	}
	return nil
}

// wipe deletes everything in the store, between two commits, so that no commit is acknowledged that
// no disk has.
func (s *wiped) wipe() {
	if snap := s.snapshot(); snap.Job != nil {
		s.fence[snap.Job.UID] = snap.Fence
	}
	s.mu.Lock()
	s.tracef("the store is wiped")
	s.mu.Unlock()
	s.etcd.Wipe()
	s.base = rendezvous.World{}
}

// remove does what `elastic rm` does, once no node is registered.
func (s *wiped) remove() {
	s.t.Helper()
	s.until("the leases are gone", 30*time.Second,
		func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 0 })
	snap := s.snapshot()
	if err := (txn.Requests{Store: s.etcd.Client("rm"), Job: s.job.Name}).Remove(s.t.Context(),
		&snap); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = "" // a removed job is not lost
	s.removed[snap.Job.UID] = true
}

// made checks a new job. It is not made from scratch while an agent that could claim the lost job
// has a checkpoint. It succeeds the job before it, its fence is not lower, and its head is the
// newest acknowledged checkpoint.
func (s *wiped) made() {
	snap := s.snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	if snap.Job == nil {
		return
	}
	if s.known[snap.Job.UID] != nil { // a store that was set back shows an earlier job
		s.goesOnOlder(&snap)
		return
	}
	s.known[snap.Job.UID], s.older = snap.Job, nil
	j, was := snap.Job, s.last
	s.last = j.UID
	if s.acked[j.UID].Number < snap.Head.Number {
		s.acked[j.UID] = snap.Head
	}
	s.tracef("job %s was made, it succeeds %q, fence %d, head %d", j.UID, j.Succeeds, snap.Fence,
		snap.Head.Number)
	if was == "" {
		return
	}
	if !j.Replaces(s.known[was]) {
		s.anew = true
		for _, a := range s.agents {
			if len(a.host.saved[a.node]) > 0 && a.host.salvaged[a.node] == was && a.reachable() {
				s.wrongf("the job was made from scratch while %s was here, which has checkpoints of it",
					a.label())
			}
		}
		return
	}
	if snap.Fence == 0 && !slices.ContainsFunc(s.agents,
		func(a *simAgent) bool { return a.host.memory[a.node].World > 0 && a.reachable() }) {
		return // the claimants had never heard of a World, and no other agent was there
	}
	// both may be made from one job, and have the same head
	if acked := s.acked[was]; acked.Number > 0 && !s.two &&
		(snap.Head.Manifest != acked.Manifest || j.Follows(was) && snap.Head.Number <= acked.Number) {
		s.wrongf("checkpoint %d was acknowledged, and the job goes on from what had the number %d (head %d)",
			acked.Number, j.Adopted, snap.Head.Number)
	}
	// With two histories, the claimants may never have heard of one. When its nodes return, the
	// next generation is made above what they saw. A twin is such a second history.
	two := s.two || !j.Follows(was)
	knows := func(a *simAgent) bool { return a.reachable() && a.host.seen[a.node] >= s.fence[was] }
	if snap.Fence < s.fence[was] && (!two || slices.ContainsFunc(s.agents, knows)) {
		s.wrongf("the fence was %d, and is %d now", s.fence[was], snap.Fence)
	}
}

// goesOnOlder records that nodes went on from a store that was set back: nodes that know nothing
// newer came first. The others come late. mu is held.
func (s *wiped) goesOnOlder(snap *rendezvous.Snapshot) {
	uid := snap.Job.UID
	if s.older == nil || uid != s.last || snap.Fence <= *s.older {
		return
	}
	if acked := s.acked[uid]; acked.Number > snap.Head.Number {
		for _, a := range s.agents {
			if time.Since(s.setBackAt) < untilClaimed {
				break // a node that comes in this moment may be faster than those that claim
			}
			if a.host.salvaged[a.node] == uid && a.reachable() && slices.ContainsFunc(a.host.saved[a.node],
				func(h checkpoint.Head) bool { return h.Manifest == acked.Manifest }) {
				s.wrongf("the job goes on from an older state while %s was here, which knows more", a.label())
			}
		}
		s.acked[uid] = snap.Head
	}
	s.allKnewMore(snap.World)
	s.tracef("the job goes on from an older state, fence %d, head %d", snap.Fence, snap.Head.Number)
	s.fence[uid], s.older, s.two = snap.Fence, nil, true
}

// reachable reports whether the agent and its requests to the store were undisturbed for some time.
// sim.mu is held.
func (a *simAgent) reachable() bool {
	return !a.isDead() && a.frozen == nil && !a.bad && time.Since(a.upSince) > 5*time.Second
}

// back is faulty.back for a story in which no machine is lost.
func (s *wiped) back() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.knowsLittle() {
		return 85 * time.Second
	}
	return 25 * time.Second
}

// end ends the simulation.
func (s *wiped) end() {
	s.t.Helper()
	s.stop()
	s.finish()
}

// A store loses everything while two nodes train. Their workers run on, both claim the job, and one
// of them makes it again, from the newest commit and above its generation.
func TestWipedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withCheckpoint(t, "2", "a", "b")
		s.commit()
		s.wipe()
		s.until("it runs again", 30*time.Second, s.running(2, 2))
		if snap := s.snapshot(); snap.Job.Adopted != 2 || snap.Head.Number != 3 || snap.World.Resume == nil ||
			snap.World.Resume.Number != 3 {
			t.Errorf("job %+v, head %+v, world %+v", snap.Job, snap.Head, snap.World)
		}
		s.end()
	})
}

// All agents died with the store. A node that returns claims what its disk remembers. A new node
// that comes before the second one waits.
func TestWipedWhileAllWereDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		a, b := nodes[0], nodes[1]
		a.kill()
		b.kill()
		s.wipe()
		s.start("a")
		time.Sleep(time.Second)
		s.start("c") // it was never in the job
		time.Sleep(time.Minute - 5*time.Second)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("made again without b: %+v", snap.Job)
		}
		s.start("b")
		s.until("it runs again", 60*time.Second, s.running(2, 2))
		s.end()
	})
}

// A node waits for a job that the store has lost. The server answers, so the connect timeout does
// not limit that wait.
func TestWipedForLongerThanTheConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2", "a", "b")
		a, b := nodes[0], nodes[1]
		a.kill()
		b.kill()
		s.wipe()
		for _, name := range []string{"a", "c"} { // one claims it, and one was never in it
			x := s.makeAgent(name)
			x.cfg.ConnectTimeout = 10 * time.Second
			s.sim.run(x)
		}
		time.Sleep(time.Minute)
		s.start("b")
		s.until("it runs again", 30*time.Second, s.running(2, 2))
		for _, x := range s.agents[2:] {
			if x.isDead() {
				t.Errorf("%s ended with %d (%v)", x.name, x.result.Status, x.result.Err)
			}
		}
		s.end()
	})
}

// A new store counts revisions anew. Lines that depend on revisions are printed there as well.
func TestWipedAndLostIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWiped(t, "2", 1)
		b := s.trains("a", "b")[1]
		for range 20 {
			s.commit() // the store gets on in years
		}
		lose := func(g schema.Generation) {
			b.kill()
			s.until("a waits", 10*time.Second,
				func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
			time.Sleep(time.Second)
			b = s.start("b")
			s.until("it runs again", 30*time.Second, s.running(g, 2))
		}
		lose(2)
		s.wipe()
		s.until("it runs in the new store", 30*time.Second, s.running(3, 2))
		lose(4)
		if n := strings.Count(s.story(), "a says: wait: b was lost"); n != 2 {
			t.Errorf("told %d times\n%s", n, s.story())
		}
		s.end()
	})
}

// One of three nodes never returns, which is fewer than the copies. The others wait for the limit,
// and go on.
func TestWipedAndOneIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "2:3", "a", "b", "c")
		c := nodes[2]
		c.kill()
		s.wipe()
		began := time.Now()
		s.until("it runs again", 90*time.Second, s.running(2, 2))
		if took := time.Since(began); took < 60*time.Second {
			t.Errorf("it waited %v for c", took)
		}
		s.end()
	})
}

// A checkpoint that only a missing node has is waited for without a limit.
func TestWipedAndTheHolderIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nodes := withCheckpoint(t, "1", "a")
		a := nodes[0]
		s.start("b") // a spare, without a copy
		s.until("b is here", 30*time.Second, func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 2 })
		time.Sleep(time.Second)
		a.kill()
		s.wipe()
		time.Sleep(5 * time.Minute)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("made again without a, which has the only copy: %+v", snap.Job)
		}
		s.start("a")
		s.until("it runs again", 90*time.Second, func(x rendezvous.Snapshot) bool {
			return x.World != nil && x.World.Resume != nil && s.running(0, x.World.Count)(x)
		})
		s.end()
	})
}

// A spare cannot write its claim to its disk. It reports that once, tries less and less often, and
// reports when it succeeds.
func TestFullDiskIsTriedMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1", 1)
		s.start("a")
		s.until("generation 1 runs", 30*time.Second, s.running(1, 1))
		b := s.makeAgent("b")
		full := func(on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			b.host.full = on
		}
		b.client.Fates(func(op memory.Op) memory.Fate {
			if op.Kind == memory.Txn { // it joins
				full(true)
			}
			return memory.Fate{}
		})
		s.run(b)
		time.Sleep(5 * time.Minute)
		b.client.Fates(nil)
		s.mu.Lock()
		n := b.host.refused
		s.mu.Unlock()
		if n < 10 || n > 20 {
			t.Errorf("it was tried %d times in 5 minutes", n)
		}
		full(false)
		time.Sleep(31 * time.Second)
		if c, _ := (*simDisk)(b).Recall("b"); c == nil || c.World != 1 {
			t.Errorf("it remembers %+v", c)
		}
		for _, line := range []string{"cannot write down the state of the job (no space left on device)",
			"has written down the state of the job"} {
			if n := strings.Count(s.story(), line); n != 1 {
				t.Errorf("%q was said %d times\n%s", line, n, s.story())
			}
		}
		s.finish()
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
		full := func(on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			b.host.full = on
		}
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

// The disk of a node is full when the job is made again: the node says so once, tries again, and goes on in
// the job as soon as there is room.
func TestWipedWhileADiskIsFull(t *testing.T) {
	for name, fits := range map[string]bool{"nothing fits": false, "the uid fits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wipedWhileADiskIsFull(t, fits) })
		})
	}
}

func wipedWhileADiskIsFull(t *testing.T, fits bool) {
	s, nodes := withCheckpoint(t, "2", "a", "b")
	b := nodes[1]
	full := func(on bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.host.full, b.host.fits = on, fits
	}
	full(true)
	s.wipe()
	s.until("the job is made again", 30*time.Second,
		func(x rendezvous.Snapshot) bool { return x.Job != nil && x.Job.Succeeds != "" })
	time.Sleep(time.Minute)
	if b.isDead() {
		t.Fatalf("b ended with %d, %v", b.result.Status, b.result.Err)
	}
	full(false)
	s.until("it runs again", 30*time.Second, s.running(0, 2))
	if n := strings.Count(s.story(), "b says: this node cannot write to its disk what it must know"); n != 1 {
		t.Errorf("it was said %d times\n%s", n, s.story())
	}
	s.end()
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
		if now := s.snapshot(); now.Job.Succeeds != "" || now.Head.Number != 0 {
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
		if a.result.Status != 1 || !errors.Is(a.result.Err, refusal.ErrRemoved) {
			t.Errorf("it ended with %d, %v", a.result.Status, a.result.Err)
		}
	})
}

// TestWipes runs random schedules of commits, crashes, freezes, late answers, newcomers and wipes.
// The checks are those of made, and of finish; and a world runs when the faults are over. COUNT and
// SEED as in TestSchedules.
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
	s.until("a world runs again (G6)", s.back(), func(x rendezvous.Snapshot) bool {
		if s.stayBehind(&x) {
			return true
		}
		w := x.World
		return w != nil && (w.Phase.Ended() || w.Phase == rendezvous.Running && s.running(0, w.Count)(x))
	})
	s.end()
	return s.sim
}
