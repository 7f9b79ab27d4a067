package integration

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A job of two nodes is asked to restart, and again while a third node joins. Each worker ends,
// with COUNT also one that could not stay, no restart is used, and the result is that of an undisturbed run.
func TestJobIsRestarted(t *testing.T) {
	t.Parallel()
	ways := []string{"place", "restart"}
	if soak(t) == 1 {
		ways = ways[:1]
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			if len(ways) > 1 { // one alone would wait for all other tests
				t.Parallel()
			}
			s := newStayers(t)
			s.script = filepath.Join(filepath.Dir(s.script), "programs.py")
			s.arguments = []string{"epochs", way}
			s.up("a")
			s.up("b")
			g := s.restarts(s.trains(0, "a", "b"), "a", "b")
			var joins sync.WaitGroup
			joins.Go(func() { s.must("restart", "x") })
			s.up("c")
			joins.Wait()
			g = s.trains(g, "a", "b", "c")
			s.restarts(g, "a", "b", "c")
			all := s.events("x")
			if failed := kinds(all, "worker_failed"); len(failed) > 0 {
				t.Errorf("workers failed: %+v", failed)
			}
			s.endsAlike()
		})
	}
}

// restarts has the job restart, and returns the generation in which these nodes then train.
func (s *stayers) restarts(g int, nodes ...string) int {
	s.t.Helper()
	s.goesOn(5)
	before := map[string]int{}
	for _, n := range nodes {
		before[n] = s.training(n).pid
	}
	if said := s.must("restart", "x"); !strings.Contains(said, "job x restarted") || strings.Contains(said, ";") {
		s.t.Errorf("restart says %q", said)
	}
	g = s.trains(g, nodes...)
	for _, n := range nodes {
		if s.training(n).pid == before[n] {
			s.t.Errorf("the worker of %s is process %d still", n, before[n])
		}
	}
	return g
}

// Workers that do not save are asked to, get the time to, and begin anew; the command says so.
func TestRestartOfAJobThatDoesNotSave(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	for _, n := range []string{"a", "b"} {
		p.run("--np=2", "--job-id=x", "--node="+n, "--grace=1s", "sh", "-c", sit)
	}
	p.running("x", 1, 2)
	if said := p.must("restart", "x"); !strings.Contains(said, "job x restarted: generation 2 running; ") {
		t.Errorf("restart says %q", said)
	}
	p.running("x", 2, 2)
	all := p.events("x")
	if worlds := kinds(all, "world_proposed"); len(worlds) != 2 || worlds[1].Cause != "restart" {
		t.Errorf("worlds: %+v", worlds)
	}
	if failed := kinds(all, "worker_failed"); len(failed) > 0 {
		t.Errorf("workers failed: %+v", failed)
	}
}
