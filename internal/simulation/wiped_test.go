package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// wiped is a simulation with checkpoints, and with a store that may lose everything.
type wiped struct {
	*sim
	stop   context.CancelFunc
	saves  int64                          // how many workers made
	acked  map[schema.UID]checkpoint.Head // the newest commit of each job that was read back
	remade map[schema.UID]int             // how often each job was made again
}

func newWiped(t *testing.T, np string, seed uint64) *wiped {
	s := &wiped{sim: newSim(t, np, seed), acked: map[schema.UID]checkpoint.Head{}, remade: map[schema.UID]int{}}
	s.real = true
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

// commit has the worker of rank 0 save, if it runs, and waits until the save is committed. It is not while
// the store shows less than the node knows.
func (s *wiped) commit() {
	snap := s.snapshot()
	w := snap.World
	if w == nil || w.Phase != rendezvous.Running {
		return
	}
	zero := s.agent(w.Members[0])
	if me := snap.Node(w.Members[0].Node); zero == nil || me == nil || !me.Same(w.Members[0]) {
		return
	}
	s.saves++
	dir := fmt.Sprintf("step-%d", s.saves)
	memfs.WriteFile(s.t, zero.host.work("x"), dir+"/model.raw", fmt.Append(nil, "weights of ", s.saves), 0o600)
	mark := fmt.Appendf(nil, `{"step":%d}`, s.saves)
	memfs.WriteFile(s.t, zero.host.work("x"), dir+"/.elastic-commit", mark, 0o600)
	was := snap.Head.Number
	for range 100 {
		if snap = s.snapshot(); snap.Head.Number > was {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if snap.Head.Number > was && snap.Job != nil && snap.World != nil && snap.World.UID == w.UID {
		s.tracef("checkpoint %d is committed", snap.Head.Number)
		s.acked[snap.Job.Identity()] = snap.Head
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

// wipe deletes everything in the store, between two commits.
func (s *wiped) wipe() {
	s.mu.Lock()
	s.tracef("the store is wiped")
	s.mu.Unlock()
	s.etcd.Wipe()
	s.base = rendezvous.World{}
}

// setBack replaces the data of the store with an older copy.
func (s *wiped) setBack(b memory.Backup, same bool) {
	s.mu.Lock()
	s.tracef("the store is set back (same: %v)", same)
	s.mu.Unlock()
	s.restore(b, same)
	s.base = rendezvous.World{}
	if w := s.snapshot().World; w != nil {
		s.base = *w
	}
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
}

// made checks a job that was made again: its head is the newest commit that an agent knows that lived
// through the loss undisturbed.
func (s *wiped) made() {
	snap := s.snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	j := snap.Job
	if j == nil || j.Remade <= s.remade[j.Identity()] {
		return
	}
	s.remade[j.Identity()] = j.Remade
	s.tracef("job %s was made again, fence %d, head %d", j.UID, snap.Fence, snap.Head.Number)
	acked := s.acked[j.Identity()]
	for _, a := range s.agents {
		if a.reachable() && a.host.uid != "" && snap.Head.Number < acked.Number && s.has(a.host, j, acked) {
			s.wrongf("checkpoint %d was acknowledged, %s lives and has it, and the head is %d", acked.Number,
				a.label(), snap.Head.Number)
		}
	}
	s.acked[j.Identity()] = snap.Head
}

// has reports whether every byte of a checkpoint of a job is on the disk of h.
func (s *wiped) has(h *simHost, j *rendezvous.Job, c checkpoint.Head) bool {
	m, err := h.disk(s.job.Name).Recall(h.node, "")
	if m == nil || err != nil || !m.Job.Same(j) {
		return false
	}
	all, bad, err := readonly.New(h.chunks(s.job.Name)).Verify(context.Background(), c.Manifest)
	return err == nil && all != nil && len(bad) == 0
}

// reachable reports whether the agent and its requests to the store were undisturbed for some time.
// sim.mu is held.
func (a *simAgent) reachable() bool {
	return !a.isDead() && a.frozen == nil && !a.bad && time.Since(a.upSince) > 5*time.Second
}

// end ends the simulation.
func (s *wiped) end() {
	s.t.Helper()
	s.stop()
	s.finish()
}

// workersOf are the workers that run.
func (s *sim) workersOf() (all []*simGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		for _, g := range a.groups {
			if !g.ended {
				all = append(all, g)
			}
		}
	}
	return all
}

// goesOn waits until the job was made again, and checks that no worker ended, that its head is checkpoint
// n, and that the next save is committed.
func (s *wiped) goesOn(before []*simGroup, n checkpoint.Number) {
	s.t.Helper()
	s.until("it was made again, and all nodes are in it", 5*time.Second, func(x rendezvous.Snapshot) bool {
		return x.Job != nil && x.Job.Remade > 0 && len(x.Nodes) == len(before)
	})
	if h := s.snapshot().Head; h.Number != n {
		s.t.Errorf("its head is %d, not %d\n%s", h.Number, n, s.story())
	}
	if !slices.Equal(before, s.workersOf()) {
		s.t.Errorf("workers ended\n%s", s.story())
	}
	s.commit()
	if h := s.snapshot().Head; h.Number != n+1 {
		s.t.Errorf("the next save is not committed: %d\n%s", h.Number, s.story())
	}
}

// refused waits until an agent ends because it has more than the store.
func (s *wiped) refused(a *simAgent) error {
	s.t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Second):
		s.t.Fatalf("%s is not refused at once\n%s", a.name, s.story())
	}
	if a.result.Status != 94 {
		s.t.Errorf("%s ends with %d (%v)", a.name, a.result.Status, a.result.Err)
	}
	return a.result.Err
}
