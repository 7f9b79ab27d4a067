package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// madeStep is a step that a generation made. A step that was lost with its generation is made again
// by a later one.
type madeStep struct {
	Generation, World, Step int
	Loss                    float64
}

// sameLosses checks that each step, also one that was lost, has the loss of the undisturbed run.
func sameLosses(t *testing.T, made, undisturbed []madeStep, tolerance float64) {
	t.Helper()
	want, seen, worlds := map[int]float64{}, map[int]bool{}, map[int]bool{}
	for _, s := range undisturbed {
		want[s.Step] = s.Loss
	}
	last, worst := 0, 0.0
	for _, s := range made {
		w, known := want[s.Step]
		d := math.Abs(s.Loss - w)
		if !known || !(d <= tolerance) {
			t.Fatalf("step %d of generation %d has loss %v, undisturbed %v (there: %v)",
				s.Step, s.Generation, s.Loss, w, known)
		}
		last, worst = max(last, s.Step), max(worst, d)
		seen[s.Step], worlds[s.World] = true, true
	}
	for step := range last {
		if !seen[step+1] {
			t.Errorf("no generation made step %d", step+1)
		}
	}
	if !worlds[1] || !worlds[2] || !worlds[3] {
		t.Errorf("steps were made in worlds of %v, want 1, 2 and 3", worlds)
	}
	t.Logf("%d steps made, up to step %d, in worlds of %v: largest difference %.2g",
		len(made), last, worlds, worst)
}

// disturb runs a job in worlds of 2, 2 after a kill, 3, 1 and 2 workers, and then stops it. Each
// world makes steps.
func disturb(p *sandbox, node func(name string) *proc, made func() []madeStep) {
	p.t.Helper()
	trains := func(after, world int) (generation int) {
		p.t.Helper()
		until(p.t, fmt.Sprintf("a world of %d trains", world), func() error {
			for _, s := range made() {
				if s.Generation > after && s.World == world {
					generation = s.Generation
					return nil
				}
			}
			return fmt.Errorf("no step was made")
		})
		return generation
	}
	a, b := node("a"), node("b")
	g := trains(0, 2)
	p.committed("x", 2)
	p.kill(b)
	p.ends(b, 128+9) // its name is in use until then
	node("b")
	g = trains(g, 2)
	node("c")
	for _, np := range []int{3, 1, 2} {
		p.must("scale", "x", fmt.Sprintf("--np=%d", np))
		g = trains(g, np)
	}
	p.must("stop", "x")
	p.ends(a, 93)
}

// With fixed-batch each step has the same loss in every world, except for the order of additions.
func TestEachStepOfTrainHasTheSameLoss(t *testing.T) {
	t.Parallel()
	start := func(p *sandbox, name string, flags ...string) *proc {
		line := []string{"--node=" + name, "--np=2", "--job-id=x", "--batch-size=48", "--lr=0.2",
			"--scaling=fixed-batch", "--log-dir=log-" + name,
			"train", "--samples=970", "--losses=losses.jsonl"}
		return p.run(append(line, flags...)...)
	}
	p := newSandbox(t)
	disturb(p, func(name string) *proc {
		return start(p, name, "--epochs=1000000", "--step-sleep=10ms", "--save-every=200ms")
	}, func() []madeStep { return trainSteps(p) })
	made := trainSteps(p)

	still := newSandbox(t)
	steps := fmt.Sprintf("--steps=%d", made[len(made)-1].Step)
	a, b := start(still, "a", steps, "--pace=0"), start(still, "b", steps, "--pace=0")
	still.ends(a, 0)
	still.ends(b, 0)
	sameLosses(t, made, trainSteps(still), 1e-9)
}

// trainSteps returns the steps that `train` reported.
func trainSteps(p *sandbox) (all []madeStep) {
	p.t.Helper()
	b, err := os.ReadFile(p.path("losses.jsonl"))
	if err != nil {
		return nil // no step was made
	}
	worlds := map[int]int{}
	for _, e := range kinds(p.events("x"), "world_running") {
		worlds[e.Generation] = e.WorldSize
	}
	for line := range strings.Lines(string(b)) {
		var s madeStep
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			continue // its worker was killed, or is at it
		}
		s.World = worlds[s.Generation]
		all = append(all, s)
	}
	return all
}

// traced runs an unchanged training script, and notes the loss of each rank at each end_step().
const traced = `
import json, runpy
end_step = elastic.State.end_step

def noted(self, loss=None):
    w = elastic.world()
    with open(f"steps-{w.generation}-{w.size}-{w.rank}", "a") as file:
        file.write(json.dumps({"step": self.step + 1, "loss": float(loss)}) + "\n")
    end_step(self, loss)

elastic.State.end_step = noted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
`

// tracedSteps returns the steps that all ranks of a generation noted, with the mean of their
// losses. It is the loss of the global batch, because each rank weights its own loss.
func tracedSteps(p *sandbox) (all []madeStep) {
	p.t.Helper()
	files, err := filepath.Glob(p.path("steps-*"))
	if err != nil {
		p.t.Fatal(err)
	}
	type key struct{ generation, world, step int }
	sums, ranks := map[key]float64{}, map[key]int{}
	for _, f := range files {
		k, rank := key{}, 0
		if _, err := fmt.Sscanf(filepath.Base(f), "steps-%d-%d-%d", &k.generation, &k.world,
			&rank); err != nil {
			p.t.Fatal(err)
		}
		for line := range strings.Lines(content(f)) {
			var s madeStep
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				continue // its worker was killed while it wrote
			}
			k.step = s.Step
			sums[k] += s.Loss / float64(k.world)
			ranks[k]++
		}
	}
	for k, loss := range sums {
		if ranks[k] == k.world {
			all = append(all, madeStep{k.generation, k.world, k.step, loss})
		}
	}
	return all
}

const debianPython = "/usr/bin/python3"

// needsTorch returns the path of the example. It skips the test on a machine without torch.
func needsTorch(t *testing.T) (example string) {
	t.Helper()
	if out, err := exec.Command(debianPython, "-c", "import torch").CombinedOutput(); err != nil {
		t.Fatalf("this test needs torch: apt-get install python3-torch\n%s", out)
	}
	example, err := filepath.Abs("../examples/torch/train.py")
	if err != nil {
		t.Fatal(err)
	}
	return example
}

// The unchanged example of torch. In float32 the rounding depends on the world, and training
// amplifies the differences. The tolerance is for a loss that begins at 1.4, and for some hundred
// steps.
func TestEachStepOfTorchHasTheSameLoss(t *testing.T) {
	t.Parallel()
	example := needsTorch(t)
	precisions := map[string]float64{"--float64": 1e-9}
	if soak(t) > 1 {
		precisions["--epochs=100000"] = 1e-3 // the default is float32
	}
	for precision, tolerance := range precisions {
		t.Run(precision, func(t *testing.T) {
			start := func(p *sandbox, name string, flags ...string) *proc {
				line := []string{"--node=" + name, "--np=2", "--job-id=x", "--batch-size=48", "--lr=0.05",
					"--scaling=fixed-batch", "--max-restarts=10", "--warm=off", "--log-dir=log-" + name, debianPython,
					p.script(traced), example, precision, "--samples=970"}
				return p.run(append(line, flags...)...)
			}
			p := newSandbox(t)
			disturb(p, func(name string) *proc {
				return start(p, name, "--epochs=100000", "--save-every=300ms", "--pause=0.03")
			}, func() []madeStep { return tracedSteps(p) })
			made, last := tracedSteps(p), 0
			for _, s := range made {
				last = max(last, s.Step)
			}
			still := newSandbox(t)
			epochs := fmt.Sprintf("--epochs=%d", last*48/970+1)
			a, b := start(still, "a", epochs), start(still, "b", epochs)
			still.ends(a, 0)
			still.ends(b, 0)
			sameLosses(t, made, tracedSteps(still), tolerance)
		})
	}
}

// Three launchers run the same unchanged file. In a world of one, and in a world of two, the last
// loss is the same with each launcher.
func TestOneScriptForEveryLauncher(t *testing.T) {
	t.Parallel()
	example := needsTorch(t)
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	script := []string{example, "--float64", "--epochs=2", "--samples=970"}
	p := newSandbox(t)
	own := os.Environ()
	plain := func(args ...string) *proc {
		x := newSandbox(t)
		x.env = append(own, "PYTHONPATH="+helper, "PYTHONDONTWRITEBYTECODE=1")
		return x.start(debianPython, append(args, script...)...)
	}
	worlds := map[int][]*proc{
		1: {plain(), p.run(append([]string{"--np=1", "--job-id=one", "--log-dir=log-one", debianPython},
			script...)...)},
		// Debian's torchrun fails on the defaults of --redirects and --tee; with these its lines
		// begin with "[default0]:".
		2: {plain("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--redirects=1",
			"--tee=1", "--log_dir="+p.path("torchrun")),
			p.run(append([]string{"--np=1", "--nproc-per-node=2", "--job-id=two", "--log-dir=log-two",
				debianPython},
				script...)...)},
	}
	for size, all := range worlds {
		var said []string
		for _, x := range all {
			p.ends(x, 0)
			said = append(said, strings.TrimPrefix(lastLine(x.stdout()), "[default0]:"))
		}
		if said[0] != said[1] || !strings.Contains(said[0], " steps: loss ") {
			t.Errorf("a world of %d says %q", size, said)
		}
	}
}
