//go:build torch

package integration

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// fsdpSteps is the number of steps in a round of a test. A round commits about twenty times, and
// loses the steps since its last commit.
const fsdpSteps = 120

// fsdpRate is a learning rate at which differences in the last digit, which depend on the number of
// ranks, do not grow: at 0.01 undisturbed runs of one and two ranks differ by 0.003 after 3,600 steps.
const fsdpRate = "--lr=0.001"

var fsdpLoss = regexp.MustCompile(`(?m)^(\d+) steps: loss (\S+)$`)

// FSDP with torch.distributed.checkpoint. Each node has a disk of its own. Nodes are killed with
// their disks, and the result is that of an undisturbed run. TORCH is the path of a python with
// torch.
func TestFSDP(t *testing.T) {
	python := os.Getenv("TORCH")
	if out, err := exec.Command(python, "-c", "from torch.distributed.fsdp import fully_shard").
		CombinedOutput(); err != nil {
		t.Fatalf("TORCH=%s: the python of a torch that has fully_shard: %v\n%s", python, err, out)
	}
	rounds := max(3, soak(t))
	steps := strconv.Itoa(fsdpSteps * rounds)
	script, err := filepath.Abs("../examples/fsdp/train.py")
	if err != nil {
		t.Fatal(err)
	}
	p := newSandbox(t)
	program := []string{python, script, "--float64", fsdpRate, "--steps=" + steps}
	j := &shardedJob{sandbox: p, program: append(program, "--save-every=10", "--pause=0.03"),
		nodes: map[string]*proc{}}
	j.disturbed(sizesOf(rounds), p.path("finish"))
	got := fsdpLoss.FindStringSubmatch(j.logs("log-*"))
	alone := p.start(filepath.Join(bin, "elastic"),
		append([]string{"run", "--job-id=alone", "--log-dir=log-of-one"},
			append(program, "--save-every=1000000")...)...)
	p.ends(alone, 0)
	want := fsdpLoss.FindStringSubmatch(j.logs("log-of-one"))
	if got == nil || want == nil || got[1] != want[1] {
		t.Fatalf("%q and undisturbed %q", got, want)
	}
	a, _ := strconv.ParseFloat(got[2], 64)
	b, _ := strconv.ParseFloat(want[2], 64)
	if math.IsNaN(a) || math.Abs(a-b) > 1e-9 {
		t.Errorf("the loss is %v, undisturbed %v", a, b)
	}
	t.Logf("%d nodes lost with their disks; loss %v, undisturbed %v", rounds, a, b)
}
