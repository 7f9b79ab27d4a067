//go:build frameworks

package integration

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Each example of a framework, with the helper's file for it: two nodes, one is killed, a new one comes, the
// job is stopped and started again by two nodes. It makes as many steps as the undisturbed run, and ends
// with its loss.
func TestIntegrations(t *testing.T) {
	fixed := []string{"--batch-size=24", "--scaling=fixed-batch"}
	for name, flags := range map[string][]string{
		"transformers": fixed, "lightning": fixed, "accelerate": fixed,
		"dcp": {"--save-from=all"}, "jax": nil,
	} {
		t.Run(name, func(t *testing.T) { compare(t, name, flags) })
	}
}

// compare runs an example alone, and disturbed, and compares what both print last.
func compare(t *testing.T, name string, flags []string) {
	python := filepath.Join(os.Getenv("FRAMEWORKS"), "torch", "bin", "python")
	script, err := filepath.Abs(filepath.Join("..", "examples", name, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	alone := newSandbox(t)
	alone.set("PYTHONPATH="+helper, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=28011")
	quiet := alone.start(python, script)
	alone.through(quiet)
	steps, loss := ending(t, quiet)

	p := newSandbox(t)
	node := func(name string) *proc {
		all := append([]string{"--np=1:3", "--job-id=x", "--node=" + name, "--checkpoint-dir=ckpt-" + name,
			"--log-dir=log-" + name, "--last-call=1s", "--warm=off"}, flags...)
		return p.run(append(all, python, script, "--pause=0.15")...)
	}
	a, b := node("a"), node("b")
	p.says(a, "running: world size 2")
	p.happens("checkpoint_committed", 1)
	p.kill(b)
	<-b.done
	p.happens("checkpoint_committed", 2)
	c := node("c")
	p.happens("save_asked", 1)
	p.happens("checkpoint_committed", 4)
	p.must("stop", "x")
	for _, x := range []*proc{a, c} {
		p.through(x)
	}
	a, c = node("a"), node("c")
	p.through(a)
	p.through(c)
	last := a
	if _, ok := ends(c); ok {
		last = c
	}
	did, got := ending(t, last)
	t.Logf("%s: %d steps, loss %.12g; undisturbed %d steps, loss %.12g", name, did, got, steps, loss)
	if did != steps || math.Abs(got-loss) > 1e-9 {
		t.Error("the disturbed run differs from the undisturbed one")
	}
}

// through waits for the end of a node, for as long as training takes.
func (p *sandbox) through(x *proc) {
	p.t.Helper()
	within(p.t, 4*time.Minute, x.String()+" ends", func() error {
		if _, ended := x.ended(); !ended {
			return fmt.Errorf("it runs; it said last: %s", lastLine(x.stderr()))
		}
		return nil
	})
}

// happens waits for the n-th event of a kind.
func (p *sandbox) happens(kind string, n int) {
	p.t.Helper()
	within(p.t, 2*time.Minute, fmt.Sprintf("%s, %d times", kind, n), func() error {
		found := 0
		for _, e := range p.events("x") {
			if e.Kind == kind {
				found++
			}
		}
		if found < n {
			return fmt.Errorf("%d times", found)
		}
		return nil
	})
}

// ends finds what rank 0 prints last.
func ends(x *proc) ([]string, bool) {
	m := regexp.MustCompile(`(?m)^(?:\S+: )?(\d+) steps: loss (\S+?),?(?: |$)`).FindStringSubmatch(x.stdout())
	return m, m != nil
}

func ending(t *testing.T, x *proc) (int, float64) {
	t.Helper()
	m, ok := ends(x)
	if !ok {
		t.Fatalf("no end of training:\n%s\n%s", tail(x.stdout()), tail(x.stderr()))
	}
	steps, err1 := strconv.Atoi(m[1])
	loss, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return steps, loss
}
