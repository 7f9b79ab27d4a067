package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

func TestRange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	node := func(name string) *proc {
		return p.run("--np=1:3", "--job-id=x", "--last-call=2s", "--node="+name, "sh", "-c", sit)
	}
	node("a")
	p.reaches("x", "the last call", func(s status) error {
		if s.State != "waiting" || s.WhyCode != "last-call" || s.Generation != 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	p.running("x", 1, 1)

	// Two that come together cause one change, planned, after the last call.
	b := node("b")
	node("c")
	p.running("x", 2, 3)
	all := p.events("x")
	proposed := kinds(all, "world_proposed")
	if len(proposed) != 2 || proposed[1].Cause != "node-joined" {
		t.Errorf("worlds: %+v", proposed)
	}
	if asked := kinds(all, "save_asked"); len(asked) != 1 || asked[0].Generation != 1 {
		t.Errorf("the newcomers did not cause one planned change: %+v", asked)
	}
	if failed := kinds(all, "worker_failed"); len(failed) > 0 {
		t.Errorf("failures: %+v", failed)
	}
	if gap := at(t, proposed[1]).Sub(at(t, kinds(all, "node_joined")[1])); gap < 2*time.Second {
		t.Errorf("the last call was %s long", gap)
	}

	// Who is too many is a spare.
	d := node("d")
	p.says(d, "standing by as a spare")
	before := p.reaches("x", "d is a spare", func(s status) error {
		if s.State != "running" || s.Generation != 2 || s.node("d") != "spare" {
			return fmt.Errorf("not yet")
		}
		return nil
	})

	// It takes over where one was lost.
	if err := b.kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := p.running("x", 3, 3)
	for _, c := range []struct{ was, is string }{{"a", "a"}, {"b", "d"}, {"c", "c"}} {
		if before.rank(c.was) != after.rank(c.is) {
			t.Errorf("rank %d of %s is now %d of %s", before.rank(c.was), c.was, after.rank(c.is), c.is)
		}
	}
	proposed = kinds(p.events("x"), "world_proposed")
	if last := proposed[len(proposed)-1]; len(proposed) != 3 || last.Cause != "node-lost" {
		t.Errorf("worlds: %+v", proposed)
	} else if gap := at(t, last).Sub(at(t, kinds(p.events("x"), "node_lost")[0])); gap >= 2*time.Second {
		t.Errorf("the spare took over after %s, as if after a last call", gap)
	}

	// A spare that is lost is missed by nobody.
	worker := pidIn(t, p.path("worker.a"))
	e := node("e")
	p.says(e, "standing by as a spare")
	if err := e.kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.reaches("x", "the spare is gone", func(s status) error {
		if n := s.node("e"); n != "lost" && n != "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	endures(t, 3*time.Second, "nobody is restarted", func() error {
		if s, err := p.status("x"); err != nil || s.State != "running" || s.Generation != 3 || !alive(worker) {
			return fmt.Errorf("%v, %w", s, err)
		}
		return nil
	})

	// scale stays inside.
	p.refused(2, "E-NP-RANGE", "scale", "x", "--np=4")
	if got, want := p.must("scale", "x", "-1"), "job x scaled to 2: generation 4 running\n"; got != want {
		t.Errorf("scale said %q, want %q", got, want)
	}
	p.reaches("x", "one of three is a spare", func(s status) error {
		if s.State != "running" || s.WorldSize != 2 || len(s.World) != 2 || s.Wish.NP != 2 || s.rank("a") != 0 {
			return fmt.Errorf("not yet")
		}
		spares := 0
		for _, n := range s.Nodes {
			if n.State == "spare" {
				spares++
			}
		}
		if spares != 1 {
			return fmt.Errorf("%d spares", spares)
		}
		return nil
	})
	p.refused(1, "E-NP-CONFLICT", "scale", "x", "3", "--if-np=1")
	p.must("scale", "x", "+1", "--if-np=2")
	p.running("x", 5, 3)
}

func at(t *testing.T, e event) time.Time {
	t.Helper()
	when, err := time.Parse("2006-01-02T15:04:05.000Z", e.Time)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// A later agent with another size joins; with another of the rest it is refused.
func TestLaterAgentDiffers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run("--np=2", "--job-id=x", "--node=a", "--batch-size=64", "sh", "-c", sit)
	p.state("x", "waiting")
	p.refused(2, "E-JOB-DIFFERS", "run", "--np=2", "--job-id=x", "--batch-size=32", "sh", "-c", sit)
	p.refused(2, "E-JOB-DIFFERS", "run", "--np=2", "--job-id=x", "--nproc-per-node=2", "sh", "-c", sit)
	p.refused(1, "E-NODE-NAME", "run", "--np=2", "--job-id=x", "--node=a", "sh", "-c", sit)
	b := p.run("--np=4", "--job-id=x", "--node=b", "sh", "-c", sit)
	p.says(b, "elastic: job x is at np=2; --np=4 is not used\n")
	p.running("x", 1, 2)
}
