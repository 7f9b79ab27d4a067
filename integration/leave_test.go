package integration

import (
	"fmt"
	"syscall"
	"testing"
)

func TestBelowMinAndBack(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	train := []string{"--np=2", "--job-id=x", "train", "--steps=1000000", "--step-sleep=20ms"}
	a, b := p.run(append([]string{"--node=a"}, train...)...), p.run(append([]string{"--node=b"}, train...)...)
	rank := p.running("x", 1, 2).rank("a")
	rounds := 3
	if n := soak(t); n > 1 {
		rounds = max(10, n)
	}
	for g := 2; g < 2+rounds; g++ {
		if err := b.kill(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.ends(b, 75)
		p.reaches("x", "waiting for b", func(s status) error {
			if s.State != "waiting" || s.WhyCode != "nodes-missing" || s.node("b") != "left" ||
				s.Wish.Missing != 1 {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		b = p.run(append([]string{"--node=b"}, train...)...)
		if got := p.running("x", g, 2).rank("a"); got != rank {
			t.Errorf("generation %d: rank of a was %d and is %d", g, rank, got)
		}
	}
	for _, e := range p.events("x") {
		if e.Kind == "node_lost" || e.Kind == "worker_failed" {
			t.Errorf("a polite leave caused: %+v", e)
		}
	}
	p.must("stop", "x")
	p.ends(a, 93)
	p.ends(b, 93)
}

func TestEarlyFinisherRestartsNoWorker(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	program := []string{"--np=2", "--job-id=x", "sh", "-c",
		`[ $RANK = 0 ] && exit 0; echo $$ >slow; until [ -e through ]; do sleep 0.05; done`}
	a, b := p.run(append([]string{"--node=a"}, program...)...),
		p.run(append([]string{"--node=b"}, program...)...)
	p.reaches("x", "finishing", func(s status) error {
		if s.State != "finishing" || s.WhyCode != "finishing" || s.Generation != 1 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	slow := pidIn(t, p.path("slow"))
	// A node joins, and is killed. No worker is restarted for it.
	c := p.run(append([]string{"--node=c"}, program...)...)
	p.reaches("x", "c is here", func(s status) error {
		if s.node("c") != "spare" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	p.kill(c)
	p.reaches("x", "c is gone", func(s status) error {
		if n := s.node("c"); n != "lost" && n != "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if !alive(slow) {
		t.Error("the slow worker has ended")
	}
	p.touch("through")
	p.ends(a, 0)
	p.ends(b, 0)
	p.oneStart(2, 1)

	// Too late.
	late := p.run(append([]string{"--node=d"}, program...)...)
	p.ends(late, 95)
	p.says(late, "job x is done")
	p.oneStart(2, 1)
	if all := p.events("x"); len(kinds(all, "job_done")) != 1 || len(kinds(all, "job_finishing")) != 1 {
		t.Error("the end was not reported once")
	}
	p.refused(1, "E-JOB-ENDED", "stop", "x")
	p.refused(1, "E-JOB-ENDED", "scale", "x", "3")
}

func TestFailedJobGoesOnWithANewAttempt(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	args := []string{"--job-id=x", "--node=a", "--max-restarts=1", "sh", "-c",
		`[ -e cured ] || exit 9; echo $$ >worker; exec sleep 1000`}
	first := p.run(args...)
	p.ends(first, 9)
	if st := p.state("x", "failed"); st.Generation != 2 || st.Restarts.Used != 1 {
		t.Errorf("%s, restarts %+v", st, st.Restarts)
	}
	p.touch("cured")
	p.run(args...)
	st := p.running("x", 3, 1)
	if st.Restarts.Used != 0 || st.Restarts.Max != 1 || st.Exit != nil {
		t.Errorf("the new attempt began with restarts %+v, exit %v", st.Restarts, st.Exit)
	}
	proposed := kinds(p.events("x"), "world_proposed")
	if len(proposed) != 3 || proposed[2].Cause != "attempt" || proposed[2].Generation != 3 {
		t.Errorf("worlds: %+v", proposed)
	}
	// The budget is full again, and holds: one failure, one restart.
	if err := syscall.Kill(pidIn(t, p.path("worker")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if st := p.running("x", 4, 1); st.Restarts.Used != 1 {
		t.Errorf("restarts %+v after one", st.Restarts)
	}
}
