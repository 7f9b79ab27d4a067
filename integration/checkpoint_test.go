package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// wipe deletes the state directory of a node.
func (p *sandbox) wipe(node string) {
	p.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "nodes", node))
	if err != nil || len(dirs) != 1 {
		p.t.Fatalf("the disk of %s: %v %v", node, dirs, err)
	}
	if err := os.RemoveAll(dirs[0]); err != nil {
		p.t.Fatal(err)
	}
}

// committed waits until n checkpoints were committed.
func (p *sandbox) committed(job string, n int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d checkpoints are committed", n), func() error {
		if got := len(kinds(p.events(job), "checkpoint_committed")); got < n {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
}

func trainNode(p *sandbox, node string, np int, more ...string) *proc {
	args := []string{"--node=" + node, fmt.Sprintf("--np=%d", np), "--job_id=x", "--batch-size=256",
		"--lr=0.1", "--scaling=fixed-batch", "--log-dir=log-" + node, "train", "--steps=400",
		"--step-sleep=10ms", "--save-every=300ms"}
	return p.run(append(args, more...)...)
}

// resumed returns the step from which a generation started, as `elastic-demo` prints it.
var resumed = regexp.MustCompile(`(?m)^generation (\d+): world \d+, batch \d+, lr [0-9.]+, from step (\d+)`)

func steps(all ...*proc) map[int]int {
	from := map[int]int{}
	for _, x := range all {
		for _, m := range resumed.FindAllStringSubmatch(x.stdout(), -1) {
			g, _ := strconv.Atoi(m[1])
			from[g], _ = strconv.Atoi(m[2])
		}
	}
	return from
}

// The node of rank 0 is killed, and its disk is lost. The survivor becomes rank 0, and goes on from
// the last commit, which is on its own disk.
func TestRankZeroAndItsDiskAreLost(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a, b := trainNode(p, "a", 2), trainNode(p, "b", 2)
	first := p.running("x", 1, 2)
	zero, other := a, b
	name := "a"
	if first.rank("a") != 0 {
		zero, other, name = b, a, "b"
	}
	p.committed("x", 3)
	p.kill(zero)
	p.state("x", "waiting")
	p.wipe(name)
	c := trainNode(p, "c", 2)
	p.ends(other, 0)
	p.ends(c, 0)
	st, err := p.status("x")
	if err != nil || st.State != "done" {
		t.Fatalf("%v %v", st, err)
	}
	if from := steps(a, b, c)[2]; from == 0 {
		t.Errorf("generation 2 started from scratch:\n%s\n%s", other.stdout(), c.stdout())
	}
	if !strings.Contains(other.stderr(), "rank 0 here, from checkpoint") {
		t.Errorf("the survivor did not become rank 0 with the checkpoint:\n%s", tail(other.stderr()))
	}
}

// Before a planned change the workers save, so no step is done twice.
func TestAPlannedChangeLosesNoStep(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a, b := trainNode(p, "a", 2, "--steps=100000", "--step-sleep=5ms"),
		trainNode(p, "b", 2, "--steps=100000", "--step-sleep=5ms")
	p.running("x", 1, 2)
	g := 1
	size := 2
	stopped := regexp.MustCompile(`(?m)^elastic-demo: rank 0: stopped, as asked after step (\d+)`)
	for range 2 * soak(t) {
		until(t, fmt.Sprintf("generation %d trains and commits", g), func() error {
			for _, e := range kinds(p.events("x"), "checkpoint_committed") {
				if e.Generation == g {
					return nil
				}
			}
			return fmt.Errorf("it did not commit yet")
		})
		size = 3 - size
		if r := p.command("scale", "x", fmt.Sprintf("--np=%d", size)); r.status != 0 {
			t.Fatalf("scale: %s", r.stderr)
		}
		g++
		p.running("x", g, size)
	}
	until(t, fmt.Sprintf("generation %d says where it started", g), func() error {
		if _, ok := steps(a, b)[g]; !ok {
			return fmt.Errorf("it says nothing yet")
		}
		return nil
	})
	from := steps(a, b)
	ends := stopped.FindAllStringSubmatch(p.logs("log-a")+p.logs("log-b"), -1)
	if len(ends) < g-1 {
		t.Fatalf("%d of %d generations reported after which step they stopped", len(ends), g-1)
	}
	began := map[int]bool{}
	for gen := range from {
		began[from[gen]] = true
	}
	for _, m := range ends {
		if n, _ := strconv.Atoi(m[1]); !began[n] {
			t.Errorf("a generation stopped after step %d, and none went on from there: %v", n, from)
		}
	}
	if r := p.command("stop", "x"); r.status != 0 {
		t.Fatalf("stop: %s", r.stderr)
	}
}

// logs returns the output of all workers of a node.
func (p *sandbox) logs(dir string) string {
	p.t.Helper()
	files, err := filepath.Glob(p.path(dir, "workerlog.*"))
	if err != nil {
		p.t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		all.WriteString(content(f))
	}
	return all.String()
}

// An unchanged PyTorch script that overwrites one file with torch.save resumes from that file.
func TestAnUnchangedTorchScript(t *testing.T) {
	t.Parallel()
	python := "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import torch").CombinedOutput(); err != nil {
		t.Fatalf("this test needs torch: apt-get install python3-torch\n%s", out)
	}
	script, err := filepath.Abs("testdata/inplace.py")
	if err != nil {
		t.Fatal(err)
	}
	p := newSandbox(t)
	node := func(name string) *proc {
		return p.run("--node="+name, "--np=2", "--job_id=x", "--console=all", "--log-dir=log-"+name, python, script)
	}
	a, b := node("a"), node("b")
	first := p.running("x", 1, 2)
	p.committed("x", 2)
	zero, other, name := a, b, "a"
	if first.rank("a") != 0 {
		zero, other, name = b, a, "b"
	}
	p.kill(zero)
	p.state("x", "waiting")
	p.wipe(name)
	c := node("c")
	p.ends(other, 0)
	p.ends(c, 0)
	m := regexp.MustCompile(`start step=(\d+) world=2 rank=0`).FindAllStringSubmatch(other.stdout(), -1)
	if len(m) != 1 || m[0][1] == "0" {
		t.Errorf("the survivor as rank 0 started from %v", m)
	}
	if !strings.Contains(other.stdout(), "finished step=300") {
		t.Errorf("it did not finish:\n%s", tail(other.stdout()))
	}
}
