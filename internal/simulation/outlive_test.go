package simulation

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// TestSavesOutliveFaults runs random stories with the real replicator, pipeline, retention and removal
// over disks in memory. Workers save all the time, in one of several layouts: with a mark, written
// over in place, as two files with a pause between, in renamed directories, or so that no save is ever
// known to be complete. The store is wiped, set back, full, compacted and stands still; agents are
// killed, frozen and cut off, some with the store and for longer than every limit, as they propose, or
// from the store one way alone; disks are lost, full or fail; watches go deaf; clocks are set; workers
// fail, hang or lose their guardian.
// After each round no resume is older than the newest acknowledged checkpoint, all ranks began at
// one step, the newest checkpoint is readable after the loss of any one machine, and a world runs
// within 25 s, or 85 s where nodes wait for a machine that does not come. No checkpoint is of two saves
// or has a file of the agent, saves go on being committed or are reported as waiting, no generation is
// proposed twice, a checkpoint that the record names survives the loss of any one machine, and events
// are bounded. Now and then the store alone fails: no node is evicted by that, and no worker ends.
// COUNT and SEED as in TestSchedules.
func TestSavesOutliveFaults(t *testing.T) { eachSeed(t, 40, savesOutliveFaults) }

// TestSavesOutliveEveryFault is TestSavesOutliveFaults with faults that come in a row: a node that
// proposes dies with the store before another one hears of it, and comes back; a node comes back alone
// after all others, which went on without it, were lost with the store. Two nodes do not reach each
// other. Saves have also names without numbers, and are told. Workers exit with 0 at the end of some.
func TestSavesOutliveEveryFault(t *testing.T) { eachSeed(t, 40, savesOutliveEveryFault) }

func savesOutliveFaults(t *testing.T, seed uint64) *sim {
	return savesOutlive(newFaulty(t, seed, someFaults()))
}

func savesOutliveEveryFault(t *testing.T, seed uint64) *sim {
	return savesOutlive(newFaulty(t, seed, everyFault()))
}

func savesOutlive(s *faulty) *sim {
	s.rounds(1 + s.r.IntN(3))
	return s.sim
}

// TestSavesOfWorkersThatStay is TestSavesOutliveFaults with workers that can stay, and that lie about
// the step of their state, to their agent and to each other. Whatever they say, no world begins with
// less than its checkpoint, and the rest holds as ever.
func TestSavesOfWorkersThatStay(t *testing.T) {
	kept, lied := 0, 0
	eachSeed(t, 30, func(t *testing.T, seed uint64) *sim {
		s := newFaulty(t, seed, someFaults())
		v := newStayers(s)
		s.lie = v.lie
		s.rounds(1 + s.r.IntN(3))
		kept, lied = kept+s.kept, lied+v.lied
		return s.sim
	})
	few := os.Getenv("SEED") != "" || seeds(30) < 30 // of a few stories nothing is expected
	if !few && (kept == 0 || lied == 0) {
		t.Errorf("workers went on in another generation %d times, and told %d lies", kept, lied)
	}
}

// faulty is a simulation with the real replicator and what goes wrong around it.
type faulty struct {
	*sim
	mix   mix
	r     *rand.Rand
	names []string
	at    map[string]*simAgent
	old   memory.Backup
	stop  context.CancelFunc

	workers sync.WaitGroup
	over    chan struct{} // closed when workers have done their work

	// guarded by sim.mu
	known    *rendezvous.Job
	rollback schema.Generation // the newest that began from an older checkpoint on purpose
	head     checkpoint.Head   // the newest that was committed, of the job and those that it succeeds
	lost     map[string]bool   // hosts whose disk was lost since then
	behind   bool              // the store was set back or wiped, and the job was not made again since
	older    schema.Generation
	forgot   bool // the store was set back or wiped
	missed   bool // that was in this round
	stuck    bool // no world can begin, because no machine has a checkpoint of the job, and the job says so
	// firstBegan is when the first rank of a world began, by its proposal
	firstBegan map[string]time.Time
	heads      map[schema.UID]checkpoint.Head // of each job, by its first uid
	tender     tender
	layout     layout
	often      bool // it saves several times in a second, after a long history
	last       lastSaves
	whole      int64 // the step of the newest save that was written as a whole
	stepsOf    map[checkpoint.Hash]int64
	safe       checkpoint.Head              // the newest that was committed with two copies
	commits    []committed                  // heads, and when they were seen
	proposals  map[schema.Generation]string // by generation, of the worlds that were seen
	doomed     string                       // it dies with the store as it proposes
	unheard    bool                         // before others hear of that
	proposed   chan struct{}                // closed when it does
}

// committed is a head that was seen in the store.
type committed struct {
	head  checkpoint.Head
	at    time.Time
	nodes int // that were registered then
}

func newFaulty(t *testing.T, seed uint64, m mix) *faulty {
	r := rand.New(rand.NewPCG(seed, 13))
	np, names := []string{"2", "3", "2:3", "1:3", "1:2"}[r.IntN(5)], []string{"a", "b", "c", "d"}
	if np == "1:2" {
		names = names[:2] // no spare takes a copy
	}
	s := &faulty{sim: newSim(t, np, seed), r: r, names: names, mix: m,
		layout:  m.layouts[r.IntN(len(m.layouts))],
		stepsOf: map[checkpoint.Hash]int64{}, proposals: map[schema.Generation]string{},
		at: map[string]*simAgent{}, lost: map[string]bool{},
		over: make(chan struct{}), last: lastSaves{}, heads: map[schema.UID]checkpoint.Head{}}
	s.real, s.begins = true, s.train
	s.clocks, s.exits = r.IntN(4) == 0, m.rare
	// faults end workers more often than a job may; the budget has tests of its own
	s.job.Rules.MaxRestarts = 1000
	switch k := r.IntN(80); {
	case k < 1:
		s.often, s.layout = true, layoutMarked // a file that is written again within a second is no save
	case k < 4, m.rare && k < 6:
		s.layout = layoutUnsure
	}
	s.fated = s.dooms
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	go s.follow(ctx, s.matters, s.look)
	return s
}

// train has workers begin where they are told, and rank 0 save now and then. mu is held.
func (s *faulty) train(g *simGroup) {
	g.asked = make(chan struct{})
	dir, w := g.a.host.work(s.job.Name), g.Start.World
	var step int64
	if w.Resume != nil {
		step = s.stepOf(checkpoint.Head{Number: w.Resume.Number, Manifest: w.Resume.Manifest})
	}
	newest, all := int64(0), steps(dir)
	if len(all) > 0 {
		newest = all[len(all)-1]
	}
	if len(all) > 1 && !s.layout.counts() {
		s.wrongf("%s: generation %d begins with files of the steps %v", g.a.label(), w.Generation, all)
	}
	if newest != step {
		s.wrongf("%s: generation %d resumes from step %d, and its directory has step %d", g.a.label(),
			w.Generation, step, newest)
	}
	work := s.work
	if s.layout == layoutParts {
		work = s.workInParts
	}
	s.workers.Go(func() { work(g, dir, step) })
}

func (s *faulty) work(g *simGroup, dir *memfs.FS, step int64) {
	for {
		select {
		case <-g.gone:
			return
		case <-g.asked:
			if s.hangs(g) {
				return // it does not save, and ends when it is killed
			}
			if g.Start.Rank == 0 {
				s.save(g, dir, step+1)
			}
			g.later(time.Millisecond, &message.WorkerExit{Ours: true})
			return
		case <-s.over:
			if !s.hangs(g) {
				s.through(g, dir, step)
			}
			return
		case <-time.After(s.untilSave(g.a.name)):
			step += 1 + int64(s.rng.of(g.a.name, "step").IntN(5))
			if g.Start.Rank == 0 && !s.hangs(g) {
				s.save(g, dir, step)
			}
		}
	}
}

// untilSave is the time between two saves.
func (s *faulty) untilSave(name string) time.Duration {
	r := s.rng.of(name, "work")
	if s.often {
		return time.Duration(150+r.IntN(200)) * time.Millisecond
	}
	return time.Duration(500+r.IntN(2500)) * time.Millisecond
}

func (s *faulty) hangs(g *simGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.hung
}

// look holds what the store shows to what was acknowledged: a later head is never of an older step.
func (s *faulty) look() {
	snap := s.snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	if snap.Job == nil {
		return
	}
	switch j := snap.Job; {
	case s.known == nil:
		s.known = j
	case j.UID == s.known.UID:
	case j.Same(s.known) && j.Remade < s.known.Remade:
		if !s.behind || snap.Fence <= s.older {
			return // an older state of the store
		}
		s.known = j // no node had a commit to lose
	case j.Same(s.known):
		s.tracef("job %s was made again, fence %d, head %d of step %d", j.UID, snap.Fence,
			snap.Head.Number, s.stepOf(snap.Head))
		s.known, s.behind = j, false
		s.rollback = min(s.rollback, snap.Fence)
		maps.DeleteFunc(s.proposals, func(g schema.Generation, _ string) bool { return g > snap.Fence })
	case s.behind && snap.Fence <= s.older && s.heads[j.Identity()].Number > 0:
		return // the store was set back to an earlier job
	default:
		s.tracef("another job %s takes the place of %s", j.UID, s.known.UID)
		s.heads[s.known.Identity()] = s.head
		s.known, s.behind, s.head = j, false, s.heads[j.Identity()]
		clear(s.proposals)
		clear(s.lost)
	}
	if s.behind && snap.Fence <= s.older {
		return // an older state of the store
	}
	if s.behind { // nodes that know nothing newer go on from what the store shows
		if a := s.lives(); a != nil {
			s.wrongf("the job goes on from an older state, and %s lives, which knows more", a.label())
		}
		s.head, s.behind = checkpoint.Head{}, false
		clear(s.proposals)
	}
	s.noteWorld(snap.World)
	switch h := snap.Head; {
	case h.Restored && h.Number > s.head.Number:
		s.tracef("the operator goes back from step %d to %d", s.stepOf(s.head), s.stepOf(h))
		s.head = h
		clear(s.lost)
	case snap.World != nil && snap.World.Rollback > s.rollback:
		s.tracef("the job goes back on purpose, from step %d to %d", s.stepOf(s.head), s.stepOf(h))
		s.head, s.rollback = h, snap.World.Rollback
		clear(s.lost)
	case h.Number == 0 && s.head.Number > 0, s.stepOf(h) < s.stepOf(s.head):
		switch {
		case !s.reachable():
			s.tracef("checkpoint %d is on no node that lives", s.head.Number) // not promised
		case len(s.lost) == 0:
			s.wrongf("checkpoint %d of step %d was acknowledged, and the job goes on from %d of step %d",
				s.head.Number, s.stepOf(s.head), h.Number, s.stepOf(h))
		}
		s.head = h
	case h.Number != s.head.Number:
		s.head = h
		// a holder may have lost its disk between its acknowledgement and the commit
		maps.DeleteFunc(s.lost, func(name string, _ bool) bool { return !h.HeldBy(name) || s.hasFiles(name, h) })
	}
	s.noteCommit(&snap)
}

// lives is an agent of the job that was not disturbed for a while, has workers, and knows more than the
// store showed; nil: none. mu is held.
func (s *faulty) lives() *simAgent {
	for _, a := range s.agents {
		if a.undisturbed() && a.host.uid == s.known.UID && a.hello.Generation > s.older &&
			slices.ContainsFunc(a.groups, func(g *simGroup) bool { return !g.ended }) {
			return a
		}
	}
	return nil
}

// undisturbed reports whether nothing kept a from the store and its peers for a while. mu is held.
func (a *simAgent) undisturbed() bool {
	cut := a.cut || a.storeless || a.way != noWay
	return !a.isDead() && a.frozen == nil && !a.bad && !cut && time.Since(a.upSince) > 10*time.Second
}

// reachable reports whether nodes that were not disturbed for a while have the newest checkpoint, and are named
// as its holders. mu is held.
func (s *faulty) reachable() bool {
	return s.readable(func(h *simHost) bool {
		return slices.ContainsFunc(s.agents, func(a *simAgent) bool {
			return a.host == h && a.undisturbed() && s.head.HeldBy(a.node)
		})
	})
}

// has reports whether every byte of the newest checkpoint is on the disk of h. mu is held.
func (s *faulty) has(h *simHost) bool {
	m, bad, err := readonly.New(h.chunks(s.job.Name)).Verify(context.Background(), s.head.Manifest)
	return err == nil && m != nil && len(bad) == 0
}

func (s *faulty) up(name string) {
	if a := s.at[name]; a == nil || a.isDead() {
		a = s.start(name)
		s.mu.Lock()
		s.at[name] = a
		s.mu.Unlock()
		if s.layout != layoutMarked {
			s.workers.Go(func() { s.chatter(a) })
		}
	}
}

// rounds is the story.
func (s *faulty) rounds(n int) {
	s.t.Helper()
	s.job.Rules.SaveFiles = s.layout.saveFiles()
	for _, name := range s.names[:min(3, len(s.names))] {
		s.up(name)
	}
	s.runs(2 * time.Minute)
	s.old = s.etcd.Backup()
	for range n {
		s.missed = false
		for range 2 + s.r.IntN(5) {
			time.Sleep(time.Duration(s.r.IntN(6000))*time.Millisecond + 1)
			s.fault(s.names[s.r.IntN(len(s.names))])
		}
		s.heal()
		if s.runs(s.back()); s.stuck {
			break
		}
		s.settled()
		s.goesOn()
		if s.r.IntN(3) == 0 || s.mix.rare {
			s.storeAlone()
		}
		if s.t.Failed() {
			break
		}
	}
	switch {
	case s.stuck:
	case s.often:
		s.bounded()
	case s.mix.rare && s.r.IntN(3) == 0 && !s.t.Failed():
		s.ends()
	}
	s.stop()
	if !s.forgot {
		s.lateCommits()
	}
	s.finish()
	s.workers.Wait()
}

// close ends the simulation.
func (s *faulty) close() {
	s.t.Helper()
	s.stop()
	s.finish()
	s.workers.Wait()
}

// runs waits until a world runs, or cannot begin.
func (s *faulty) runs(limit time.Duration) {
	s.t.Helper()
	var since time.Time // when it could not begin
	s.untilAfter(rulesWait(), "a world runs (G6)", limit, func(x rendezvous.Snapshot) bool {
		s.tend(&s.tender, s.at, s.up, &x)
		if !s.stranded(&x) {
			since = time.Now()
		} else if s.stuck = time.Since(since) > 20*time.Second; s.stuck {
			return true
		}
		s.mu.Lock()
		same := s.known != nil && x.Job != nil && x.Job.UID == s.known.UID && !s.behind
		s.mu.Unlock()
		w := x.World
		return same && w != nil && w.Phase == rendezvous.Running && s.running(0, w.Count)(x)
	})
}

// settled waits until the newest checkpoint is readable after the loss of any one machine.
func (s *faulty) settled() {
	s.t.Helper()
	s.until("two machines have the newest checkpoint", time.Minute, func(x rendezvous.Snapshot) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.layout == layoutParts && len(x.Nodes) > 1 {
			return s.survivesAny()
		}
		holders := 0
		for _, name := range s.names {
			if h := s.hosts[name]; h != nil && s.head.Number > 0 && s.has(h) {
				holders++
			}
		}
		return s.layout == layoutUnsure && s.head.Number == 0 || holders >= min(2, len(x.Nodes))
	})
}

// calm waits until one world has run for ten seconds, and no node is suspected.
func (s *faulty) calm() (was rendezvous.World) {
	s.t.Helper()
	since := time.Now()
	s.until("a world runs for ten seconds", 5*time.Minute, func(x rendezvous.Snapshot) bool {
		same := x.World != nil && x.World.Generation == was.Generation &&
			x.World.Phase == rendezvous.Running && len(x.Suspects) == 0 && x.Job != nil
		if x.World != nil && !same {
			was, since = *x.World, time.Now()
		}
		return same && time.Since(since) > 10*time.Second
	})
	return was
}

func (s *faulty) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracef(format, args...)
}

// lose has the store show less than it did.
func (s *faulty) lose(how string, change func()) {
	s.look()
	s.note("the store is %s", how)
	was := s.snapshot()
	s.mu.Lock()
	behind := s.behind
	s.forgot, s.missed = true, true
	s.behind, s.older = true, math.MaxUint64 // while it changes
	s.mu.Unlock()
	change()
	is := s.snapshot()
	s.mu.Lock()
	s.behind = behind || is.Job == nil && s.known != nil || is.Fence < was.Fence ||
		is.Head.Number < was.Head.Number ||
		is.Job != nil && was.Job != nil && is.Job.UID != was.Job.UID
	s.older = is.Fence
	s.tracef("it shows generation %d, checkpoint %d %.4v", is.Fence, is.Head.Number, is.Head.Manifest)
	s.mu.Unlock()
	s.base = rendezvous.World{}
	if w := s.snapshot().World; w != nil {
		s.base = *w
	}
}

func (s *faulty) disturbed(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if a := s.at[n]; a != nil {
			a.upSince = time.Now()
		}
	}
}

// protected reports whether another machine has the newest checkpoint. mu is held.
func (s *faulty) protected(but *simHost) bool {
	return s.head.Number > 0 && s.readable(func(h *simHost) bool { return h != but })
}

// endHung ends the workers that hang, as internal/hang does.
func (s *faulty) endHung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		for _, g := range a.groups {
			if g.hung {
				g.end(&message.WorkerExit{Code: 134, Signal: "SIGABRT"})
			}
		}
	}
}

// heal ends every fault, and brings every node.
func (s *faulty) heal() {
	s.note("faults end")
	s.endHung()
	for _, n := range s.names {
		if a := s.at[n]; a != nil {
			a.harmRequests(false)
		}
	}
	for _, n := range s.names {
		if a := s.at[n]; a != nil && a.leaves {
			select { // it is started again when it has left
			case <-a.done:
			case <-time.After(time.Minute):
				s.wrongf("%s does not end", a.label())
			}
		}
	}
	for _, n := range s.names {
		s.up(n)
	}
}
