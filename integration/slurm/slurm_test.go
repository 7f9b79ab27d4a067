//go:build slurm

// Package slurm_test runs deploy/slurm/elastic.sbatch on a real Slurm of three nodes.
package slurm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSbatch: a node is lost and training goes on; the job is ended before it is done, is queued
// again and goes on from its checkpoint; it ends with the result of the undisturbed run.
func TestSbatch(t *testing.T) {
	l := open(t)
	const steps = 900
	job := l.submit(steps, "--nodes=3")
	l.until(time.Minute, "three nodes train", l.says("generation 1 running: world size 3"))
	l.until(time.Minute, "steps are made", l.says("step 9"))
	if err := syscall.Kill(l.agent("n2"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.until(time.Minute, "two nodes go on", l.says("samples/s  world 2"))

	l.must("scancel", "--signal=TERM", "--batch", job) // as before the time limit
	l.until(2*time.Minute, "it is queued again", func() bool { return l.state(job) == "PENDING" })
	if out := l.output(); strings.Contains(out, "done:") {
		t.Fatalf("it was done before:\n%s", out)
	}
	l.idle()
	l.start(job)
	l.until(2*time.Minute, "it goes on from a checkpoint", func() bool {
		return regexp.MustCompile(`generation [3-9] running: world size \d, rank \d here, from checkpoint`).
			MatchString(l.output())
	})
	l.done(job, steps)
}

// TestNodeDown: a machine is gone with Slurm's daemon and everything of the job on it.
func TestNodeDown(t *testing.T) {
	l := open(t)
	const steps = 1200
	job := l.submit(steps, "--nodes=3")
	l.until(time.Minute, "three nodes train", l.says("generation 1 running: world size 3"))
	l.until(time.Minute, "steps are made", l.says("step 9"))
	agent := l.agent("n3")
	for _, pid := range []int{l.daemon("n3"), parent(t, agent), agent} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	l.until(time.Minute, "two nodes go on", l.says("samples/s  world 2"))
	l.until(time.Minute, "Slurm knows that the node is down", func() bool {
		return strings.Contains(l.must("sinfo", "-h", "-n", "n3", "-o", "%T"), "down")
	})
	l.done(job, steps)
	if n := l.restarts(job); n != 0 {
		t.Errorf("it was queued again %d times", n)
	}
}

// TestTimeLimit: before its time is up the job saves, is queued again and goes on, until it is
// done.
func TestTimeLimit(t *testing.T) {
	l := open(t)
	const steps = 2200
	// Slurm looks at limits twice a minute, so the signal comes in the first 30 seconds.
	job := l.submit(steps, "--nodes=2", "--time=1", "--signal=B:TERM@45")
	l.until(2*time.Minute, "it is queued again", func() bool { return l.restarts(job) > 0 })
	l.idle()
	if out := l.output(); !strings.Contains(out, "stopped, as asked after step") {
		t.Errorf("it was not asked to save:\n%s", out)
	}
	l.done(job, steps)
	stopped := regexp.MustCompile(`stopped, as asked after step (\d+)`).FindStringSubmatch(l.output())
	if !l.says("(step " + stopped[1] + ")")() {
		t.Errorf("the save of step %s was not used:\n%s", stopped[1], l.output())
	}
}

// TestPythonSaves: Slurm's signal reaches a worker before its agent does, and the worker saves all
// the same.
func TestPythonSaves(t *testing.T) {
	l := open(t)
	program := filepath.Join(l.dir, "train.py")
	if err := os.WriteFile(program, []byte(`import time, elastic
state = elastic.State(save_every=None, sampler=elastic.Sampler(1000))
for epoch in state.sampler.epochs(10**9):
    for indices in state.sampler:
        time.sleep(0.02)
        if state.step == 20:
            print("step 20", flush=True)
        state.commit(loss=0.5)
`), 0o600); err != nil {
		t.Fatal(err)
	}
	job := l.queue([]string{"--nodes=1"}, "python3", program)
	l.until(time.Minute, "steps are made", l.says("step 20"))
	l.must("scancel", "--signal=TERM", "--batch", job)
	l.until(time.Minute, "it is queued again", func() bool { return l.state(job) == "PENDING" })
	l.idle()
	l.start(job)
	l.until(time.Minute, "it goes on from what it saved", l.says("from checkpoint 1 "))
	l.must("scancel", job)
}

// TestNumNodes: scontrol gives the job another node, on which a step of its own starts an agent,
// and takes one of another job away. The node that comes costs no step of training.
func TestNumNodes(t *testing.T) {
	l := open(t)
	const steps = 1800
	job := l.submit(steps, "--nodes=2")
	l.until(time.Minute, "steps are made", l.says("samples/s  world 2"))
	out := l.must("salloc", "--no-shell", "--nodes=1", "--dependency=expand:"+job)
	more := regexp.MustCompile(`job allocation (\d+)`).FindStringSubmatch(out)[1]
	node := l.must("squeue", "-h", "-j", more, "-o", "%N")
	l.must("scontrol", "update", "JobId="+more, "NumNodes=0") // its node goes to the job that it expands
	step := l.command("srun", "--jobid="+job, "--nodes=1", "--ntasks=1", "--nodelist="+node,
		".elastic/slurm-"+job+"/agent")
	if err := step.Start(); err != nil {
		t.Fatal(err)
	}
	l.until(time.Minute, "three nodes train", l.says("samples/s  world 3"))
	l.done(job, steps)
	if err := step.Wait(); err != nil {
		t.Errorf("the agent of the other step: %v", err)
	}
	for _, stopped := range regexp.MustCompile(`stopped, as asked after step (\d+)`).
		FindAllStringSubmatch(l.output(), -1) {
		if !l.says("(step " + stopped[1] + ")")() {
			t.Errorf("steps before %s were lost:\n%s", stopped[1], l.output())
		}
	}

	l.idle()
	job = l.submit(steps, "--nodes=3")
	l.until(time.Minute, "three nodes train",
		func() bool { return strings.Count(l.output(), "samples/s  world 3") > 0 })
	l.must("scontrol", "update", "JobId="+job, "NumNodes=2")
	l.done(job, steps)
}

// TestSbatchWithoutProgram: the mistake is named at once, and nothing is queued again.
func TestSbatchWithoutProgram(t *testing.T) {
	l := open(t)
	script, err := filepath.Abs("../../deploy/slurm/elastic.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	job := l.must("sbatch", "--parsable", "--nodes=1", script)
	l.until(time.Minute, "it failed", func() bool { return l.state(job) == "FAILED" })
	if !l.says("no program. Use: sbatch")() {
		t.Errorf("%s", fmt.Sprint(l.output()))
	}
}
