//go:build frameworks

package integration

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Real frameworks train on two nodes, and go on after one of them was killed. The scripts know
// nothing of Elastic. FRAMEWORKS holds the virtual environments that integration/frameworks.sh
// makes.
func TestFrameworks(t *testing.T) {
	for name, c := range map[string]struct{ venv, script, np string }{
		"torch DDP, the node comes back": {"torch", "torch_ddp.py", "2"},
		"torch DDP, the others go on":    {"torch", "torch_ddp.py", "1:2"},
		"Paddle, the node comes back":    {"paddle", "paddle_dp.py", "2"},
		"Paddle, the others go on":       {"paddle", "paddle_dp.py", "1:2"},
		"torch, a file a step":           {"torch", "torch_steps.py", "2"},
		"torch's distributed checkpoint": {"torch", "torch_dcp.py", "2"},
		"... in the background":          {"torch", "torch_dcp.py --background", "2"},
		"accelerate":                     {"torch", "accelerate_train.py", "2"},
		"Lightning":                      {"torch", "lightning_train.py", "2"},
		"Transformers":                   {"torch", "hf_trainer.py", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			for range soak(t) {
				survives(t, c.venv, c.script, c.np)
			}
		})
	}
}

// survives kills one of two nodes after the first commit. At the end training must have gone on
// from that commit.
func survives(t *testing.T, venv, script, np string) {
	python := framework(venv)
	file, more, _ := strings.Cut(script, " ")
	script, err := filepath.Abs(filepath.Join("testdata", "frameworks", file))
	if err != nil {
		t.Fatal(err)
	}
	p := newSandbox(t)
	p.installed(python)
	p.set("PYTHON_EXEC=" + python)
	node := func(name string) *proc {
		return p.run(append([]string{"--np=" + np, "--job-id=x", "--node=" + name, "--checkpoint-dir=ckpt-" + name,
			"--log-dir=log-" + name, script, "--out", "ckpt-" + name, "--steps", "40", "--pause", "0.5"},
			strings.Fields(more)...)...)
	}
	a, b := node("a"), node("b")
	p.says(a, "generation 1 running: world size 2")
	within(t, 2*time.Minute, "the first save is committed", func() error {
		for _, e := range p.events("x") {
			if e.Kind == "checkpoint_committed" {
				return nil
			}
		}
		return fmt.Errorf("it is not")
	})
	p.kill(b)
	<-b.done // its name is in use until then
	world, nodes := 1, []*proc{a}
	if np == "2" {
		world, nodes = 2, []*proc{a, node("b")}
	}
	within(t, 3*time.Minute, "the nodes end", func() error {
		for _, x := range nodes {
			if _, ended := x.ended(); !ended {
				return fmt.Errorf("%s runs; it said last: %s", x, lastLine(x.stderr()))
			}
		}
		return nil
	})
	for _, x := range nodes {
		p.ends(x, 0)
	}
	said := a.stdout()
	begins := regexp.MustCompile(`rank \d+ of (\d+) begins at step (\d+)`).FindAllStringSubmatch(said, -1)
	if len(begins) != 2 || begins[0][1] != "2" || begins[0][2] != "0" ||
		begins[1][1] != strconv.Itoa(world) ||
		begins[1][2] == "0" {
		t.Errorf("two starts, the second one of %d from a checkpoint:\n%s", world, said)
	}
	if !strings.Contains(said, fmt.Sprintf("of %d ends at step 40 with loss 0.0", world)) {
		t.Errorf("trained to step 40:\n%s", said)
	}
}
