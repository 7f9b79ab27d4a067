package integration

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/wait"
)

// The examples of the training function, with a node that is killed, one that comes, and a stop. The job
// makes the steps of the undisturbed run and ends with its loss.
func TestExamplesOfTheTrainingFunction(t *testing.T) {
	t.Parallel()
	for name, tolerance := range map[string]float64{
		"inplace/train.py": 1e-3, // bfloat16
		"resnet/after.py":  1e-9,
		"llm/train.py":     1e-9,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story{script: name, python: torch(), flags: fixedBatch(), tolerance: tolerance}.play(t)
		})
	}
}

// torch is an interpreter that has torch.
func torch() string {
	if python := os.Getenv("TORCH"); python != "" {
		return python
	}
	return "/usr/bin/python3"
}

func fixedBatch() []string { return []string{"--batch-size=24", "--scaling=fixed-batch"} }

// story is an example that runs alone, and then under a job whose nodes change.
type story struct {
	script    string // below examples
	python    string
	flags     []string
	tolerance float64
}

// play kills one of two nodes, starts a third one, stops the job, and starts it again.
func (s story) play(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("..", "examples", s.script))
	if err != nil {
		t.Fatal(err)
	}
	steps, loss := s.undisturbed(t, script)
	p := newSandbox(t)
	p.set("PYTHONDONTWRITEBYTECODE=1")
	node := func(name string) *proc {
		all := append([]string{"--np=1:3", "--job-id=x", "--node=" + name, "--checkpoint-dir=ckpt-" + name,
			"--log-dir=log-" + name, "--last-call=1s", "--warm=off"}, s.flags...)
		return p.run(append(all, s.python, script, "--pause=0.4")...)
	}
	a, b := node("a"), node("b")
	p.eventually(a, "running: world size 2")
	p.happens("checkpoint_committed", 1)
	p.kill(b)
	<-b.done
	p.happens("checkpoint_committed", 2)
	c := node("c")
	p.eventually(c, "running: world size 2")
	p.happens("checkpoint_committed", 3)
	p.must("stop", "x")
	p.through(a)
	p.through(c)
	a, c = node("a"), node("c")
	p.through(a)
	p.through(c)
	last := a
	if _, ok := ends(c); ok {
		last = c
	}
	did, got := ending(t, last)
	t.Logf("%s: %d steps, loss %.12g; undisturbed %d steps, loss %.12g; steps lost in each generation:\n%s",
		s.script, did, got, steps, loss, p.must("goodput", "x"))
	if did != steps || math.Abs(got-loss) > s.tolerance {
		t.Error("the disturbed run differs from the undisturbed one")
	}
}

// undisturbed runs the script without Elastic.
func (s story) undisturbed(t *testing.T, script string) (steps int, loss float64) {
	t.Helper()
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(freeAddress(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	alone := newSandbox(t)
	alone.set("PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+helper, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1",
		"MASTER_PORT="+port, "ELASTIC_BATCH_SIZE=24", "ELASTIC_GLOBAL_BATCH_SIZE=24")
	x := alone.start(s.python, script)
	alone.through(x)
	return ending(t, x)
}

// patient waits for what takes as long as training takes on a busy machine.
func (p *sandbox) patient(what string, f func() error) {
	p.t.Helper()
	wait.For{What: what, Every: 100 * time.Millisecond, Limit: 4 * time.Minute}.Until(p.t, f)
}

// through waits for the end of a node.
func (p *sandbox) through(x *proc) {
	p.t.Helper()
	p.patient(x.String()+" ends", func() error {
		if _, ended := x.ended(); !ended {
			return fmt.Errorf("it runs; it said last: %s", lastLine(x.stderr()))
		}
		return nil
	})
}

// eventually waits for a text on stderr.
func (p *sandbox) eventually(x *proc, text string) {
	p.t.Helper()
	p.patient(fmt.Sprintf("%s says %q", x, text), func() error {
		if said := x.stderr(); !strings.Contains(said, text) {
			return fmt.Errorf("it said last: %s", lastLine(said))
		}
		return nil
	})
}

// happens waits for the n-th event of a kind.
func (p *sandbox) happens(kind string, n int) {
	p.t.Helper()
	p.patient(fmt.Sprintf("%s, %d times", kind, n), func() error {
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
	m := regexp.MustCompile(`(?m)(\d+) steps: loss ([0-9.e+-]+)`).FindStringSubmatch(x.stdout())
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
