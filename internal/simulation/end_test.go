package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// ends makes all workers save for the last time and exit with 0, one after the other, while nodes
// fail. The job is done when all have exited, every agent that trained exits with 0, and the last save is
// committed and readable after the loss of any one machine. A node that was cut off while the store
// lost the job may find another job of its name.
func (s *faulty) ends() {
	s.t.Helper()
	s.note("the workers have done their work")
	close(s.over)
	for range s.r.IntN(3) {
		time.Sleep(time.Duration(s.r.IntN(3000)) * time.Millisecond)
		name := s.names[s.r.IntN(len(s.names))]
		if a := s.at[name]; a != nil && !a.isDead() {
			span := time.Duration(s.r.IntN(8000)) * time.Millisecond
			mix{faults: nodeFaultsButPower()[:5]}.choose(s.r).begin(s, a, span)
		}
		s.disturbed(name)
	}
	s.heal()
	s.until("the job is done", time.Minute, func(x rendezvous.Snapshot) bool {
		return x.World != nil && x.World.Phase == rendezvous.Done
	})
	for _, name := range s.names {
		if s.ofAnotherJob(name) {
			continue
		}
		select {
		case <-s.at[name].done:
		case <-time.After(30 * time.Second):
			s.note("WRONG: the job is done, and %s goes on", name)
			s.t.Errorf("the job is done, and %s goes on\n%s", name, s.story())
			return
		}
	}
	s.doneWell()
}

// ofAnotherJob reports whether the data of a node is of another job than the one in the store.
func (s *faulty) ofAnotherJob(name string) bool {
	job := s.snapshot().Job
	s.mu.Lock()
	defer s.mu.Unlock()
	return job != nil && s.hosts[name].uid != job.UID
}

// doneWell checks what a job that is done leaves.
func (s *faulty) doneWell() {
	snap := s.snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		// an agent that started no worker, because it was a spare or came when the job was done: 95
		r, trained := s.at[name].result, len(s.at[name].groups) > 0
		if !trained && r.Status == problem.JobDone.Status() && problem.Is(r.Err, problem.JobDone) {
			continue
		}
		other := s.hosts[name].uid != snap.Job.UID || problem.Is(r.Err, problem.StoreBehind)
		if r.Status != 0 && !(other && r.Status == 94) {
			s.wrongf("G8: the job is done, and %s ends with %d (%v)", name, r.Status, r.Err)
		}
	}
	last, saved := s.last[snap.World.Generation]
	if !saved || s.layout == layoutUnsure {
		return
	}
	said := strings.Contains(s.partless, fmt.Sprintf("step %d:", last)) // the agent died before it had its part
	if is := s.stepOf(snap.Head); is != last && !(said && s.layout == layoutParts) {
		s.wrongf("the last save is of step %d, and the job is done with checkpoint %d of step %d",
			last, snap.Head.Number, is)
	}
	here := s.commits[len(s.commits)-1].nodes // a node that was away has no copy
	if s.layout == layoutParts {
		if here > 1 && !s.survivesAny() {
			s.wrongf("the job is done, and its last checkpoint is lost with one of the %d machines", here)
		}
		return
	}
	holders := 0
	for _, name := range s.names {
		if h := s.hosts[name]; h != nil && s.has(h) {
			holders++
		}
	}
	if holders < min(2, here) {
		s.wrongf("the job is done, and %d of the %d machines that were here have its last checkpoint",
			holders, here)
	}
}

// through ends a worker that has done its work, after step: rank 0 saves, or each rank its part,
// and each exits with 0 some time later.
func (s *faulty) through(g *simGroup, dir *memfs.FS, step int64) {
	if g.Start.Rank == 0 || s.layout == layoutParts {
		s.save(g, dir, step+1)
		s.mu.Lock()
		if s.whole == step+1 && !g.ended {
			s.last[g.Start.World.Generation] = step + 1
		}
		s.mu.Unlock()
	}
	exit, r := &message.WorkerExit{}, s.rng.of(g.a.name, "through")
	most := []int{10, 3000}[r.IntN(2)]
	select {
	case <-g.gone:
		return
	case <-g.asked:
		exit.Ours = true
	case <-time.After(time.Duration(1+r.IntN(most)) * time.Millisecond):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.end(exit)
}

// lastSaves are the steps of the last saves of workers that did their work, by generation.
type lastSaves map[schema.Generation]int64
