package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRange(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	node := func(name string) *proc {
		return p.run("--np=1:4", "--job-id=x", "--last-call=2s", "--node="+name, "sh", "-c", sit)
	}
	node("a")
	p.reaches("x", "the last call", func(s status) error {
		if s.State != "waiting" || s.WhyCode != "last-call" || s.Generation != 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	p.running("x", 1, 1)

	// Two nodes that start together cause one planned change, after the last call.
	b := node("b")
	c := node("c")
	p.running("x", 2, 3)
	all := p.events("x")
	proposed, joined := kinds(all, "world_proposed"), kinds(all, "node_joined")
	if len(proposed) != 2 || proposed[1].Cause != "node-joined" {
		t.Errorf("worlds: %+v", proposed)
	}
	if asked := kinds(all, "save_asked"); len(asked) != 1 || asked[0].Generation != 1 {
		t.Errorf("the newcomers did not cause one planned change: %+v", asked)
	}
	if failed := kinds(all, "worker_failed"); len(failed) > 0 {
		t.Errorf("failures: %+v", failed)
	}
	if gap := at(t, proposed[1]).Sub(at(t, joined[1])); gap < 1900*time.Millisecond {
		t.Errorf("the last call was %s long", gap)
	}
	for _, x := range []*proc{b, c} {
		if strings.Contains(x.stderr(), "is met") {
			t.Errorf("a node that is wanted got the line that it is not:\n%s", x.stderr())
		}
	}

	// With MAX nodes the job waits for no other node.
	node("d")
	p.running("x", 3, 4)
	all = p.events("x")
	if gap := at(t, kinds(all, "world_proposed")[2]).
		Sub(at(t, kinds(all, "node_joined")[3])); gap >= 2*time.Second {
		t.Errorf("MAX was there, and %s were waited", gap)
	}

	// A node above MAX is a spare.
	spare := node("spare")
	p.says(spare, "standing by as a spare")
	before := p.reaches("x", "there is a spare", func(s status) error {
		if s.State != "running" || s.Generation != 3 || s.node("spare") != "spare" {
			return fmt.Errorf("not yet")
		}
		return nil
	})

	// The spare replaces a lost node.
	p.kill(b)
	after := p.running("x", 4, 4)
	for _, c := range []struct{ was, is string }{{"a", "a"}, {"b", "spare"}, {"c", "c"}, {"d", "d"}} {
		if before.rank(c.was) != after.rank(c.is) {
			t.Errorf("rank %d of %s is now %d of %s", before.rank(c.was), c.was, after.rank(c.is), c.is)
		}
	}
	all = p.events("x")
	proposed = kinds(all, "world_proposed")
	if last := proposed[len(proposed)-1]; len(proposed) != 4 || last.Cause != "node-lost" {
		t.Errorf("worlds: %+v", proposed)
	} else if gap := at(t, last).Sub(at(t, kinds(all, "node_lost")[0])); gap >= 2*time.Second {
		t.Errorf("the spare took over after %s, as if after a last call", gap)
	}

	// The loss of a spare restarts nothing.
	worker := pidIn(t, p.path("worker.a"))
	e := node("e")
	p.says(e, "standing by as a spare")
	p.kill(e)
	p.reaches("x", "the spare is gone", func(s status) error {
		if n := s.node("e"); n != "lost" && n != "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	endures(t, 3*time.Second, "no worker is restarted", func() error {
		if s, err := p.status("x"); err != nil || s.State != "running" || s.Generation != 4 ||
			!alive(worker) {
			return fmt.Errorf("%v, %w", s, err)
		}
		return nil
	})

	// scale refuses sizes outside the range.
	p.refused(2, "E-NP-RANGE", "scale", "x", "--np=5")
	if got, want := p.must("scale", "x", "-1"),
		"job x scaled to 3: generation 5 running; did not save: there is no checkpoint\n"; got != want {
		t.Errorf("scale said %q, want %q", got, want)
	}
	p.reaches("x", "one of four is a spare", func(s status) error {
		if s.State != "running" || s.WorldSize != 3 || len(s.World) != 3 || s.Wish.NP != 3 ||
			s.rank("a") != 0 {
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
	p.refused(1, "E-NP-CONFLICT", "scale", "x", "4", "--if-np=1")
	p.must("scale", "x", "+1", "--if-np=3")
	p.running("x", 6, 4)
}

func at(t *testing.T, e eventLine) time.Time {
	t.Helper()
	when, err := time.Parse("2006-01-02T15:04:05.000Z", e.Time)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// A later agent with another size joins. With another value of any other setting it is refused.
func TestLaterAgentDiffers(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := p.run("--np=2", "--job-id=x", "--node=a", "--batch-size=64", "sh", "-c", sit)
	p.says(a, "this node is a;") // it has its name, so the job waits already
	p.refused(2, "E-JOB-DIFFERS", "run", "--np=2", "--job-id=x", "--batch-size=32", "sh", "-c", sit)
	p.refused(2, "E-JOB-DIFFERS", "run", "--np=2", "--job-id=x", "--nproc-per-node=2", "sh", "-c", sit)
	p.refused(1, "E-NODE-NAME", "run", "--np=2", "--job-id=x", "--node=a", "sh", "-c", sit)
	b := p.run("--np=4", "--job-id=x", "--node=b", "sh", "-c", sit)
	p.says(b, "elastic: job x is at np=2; --np=4 is not used; to change it: elastic scale x --np=4\n")
	p.running("x", 1, 2)
	c := p.run("--np=2:4", "--job-id=x", "--node=c", "sh", "-c", sit)
	p.says(c, "elastic: job x is at np=2; --np=2:4 is not used\n")
}

// A later agent with another range is told which one the job has.
func TestLaterRangeDiffers(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := p.run("--np=1:2", "--job-id=y", "--node=a", "sh", "-c", sit)
	p.says(a, "this node is a;")
	b := p.run("--np=2:4", "--job-id=y", "--node=b", "sh", "-c", sit)
	p.says(b, "elastic: job y is at np=1:2; --np=2:4 is not used\n")
}
