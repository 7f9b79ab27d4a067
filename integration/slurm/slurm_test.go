//go:build slurm

// Package slurm_test runs deploy/slurm/elastic.sbatch on a real Slurm of three nodes.
package slurm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lab is a Slurm and a working directory of one user.
type lab struct {
	t    *testing.T
	conf string
	dir  string // where jobs run
}

func open(t *testing.T) *lab {
	t.Helper()
	base, err := os.MkdirTemp("", "slurm") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) }) // what is left of it is only space
	l := &lab{t: t, conf: filepath.Join(base, "lab", "slurm.conf"), dir: filepath.Join(base, "work")}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cluster := exec.Command("./cluster.sh", filepath.Join(base, "lab"))
	cluster.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	log, err := os.Create(filepath.Join(base, "cluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cluster.Stdout, cluster.Stderr = log, log
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cluster.Wait() // the cleanup ends it by a signal
	}()
	t.Cleanup(func() {
		_ = l.command("scancel", "--me", "--full").Run() // none may be left
		_ = cluster.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	l.until(90*time.Second, "Slurm is up", func() bool {
		_, err := os.Stat(filepath.Join(base, "lab", "ready"))
		return err == nil
	})
	return l
}

func (l *lab) command(name string, args ...string) *exec.Cmd {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "SLURM_CONF="+l.conf, "PATH="+bin+":"+os.Getenv("PATH"),
		"ELASTIC_STATE_DIR="+filepath.Join(l.dir, "state"), "ELASTIC_RUN_ARGS=--last-call=1s")
	return cmd
}

func (l *lab) must(name string, args ...string) string {
	l.t.Helper()
	out, err := l.command(name, args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (l *lab) until(limit time.Duration, what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			jobs, _ := l.command("scontrol", "show", "job").CombinedOutput()
			l.t.Fatalf("after %v not so: %s\n%s\n%s", limit, what, l.output(), jobs)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// submit queues a job of the bundled trainer and returns its number.
func (l *lab) submit(nodes string, program ...string) string {
	l.t.Helper()
	script, err := filepath.Abs("../../deploy/slurm/elastic.sbatch")
	if err != nil {
		l.t.Fatal(err)
	}
	out := l.must("sbatch", append([]string{"--nodes=" + nodes, script, "train"}, program...)...)
	return out[strings.LastIndex(out, " ")+1:]
}

// output is what all jobs printed.
func (l *lab) output() string {
	files, _ := filepath.Glob(filepath.Join(l.dir, "*.out"))
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			l.t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func (l *lab) says(text string) func() bool {
	return func() bool { return strings.Contains(l.output(), text) }
}

// state is what Slurm says of a job.
func (l *lab) state(job string) string {
	return regexp.MustCompile(`JobState=(\w+)`).FindStringSubmatch(l.must("scontrol", "show", "job", job))[1]
}

// agent is the process of `elastic run` on a node.
func (l *lab) agent(node string) int {
	l.t.Helper()
	found := 0
	l.until(30*time.Second, "an agent on "+node, func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range all {
			env, err := os.ReadFile(f)
			name, _ := os.Readlink(filepath.Join(filepath.Dir(f), "exe"))
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			if err == nil && filepath.Base(name) == "elastic" && strings.Contains(string(line), "\x00run\x00") &&
				strings.Contains(string(env), "SLURMD_NODENAME="+node+"\x00") && strings.Contains(string(env), l.conf) {
				found, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
				return true
			}
		}
		return false
	})
	return found
}

// TestSbatch: a node is lost and training goes on; the job is ended before it is done, is queued
// again and goes on from its checkpoint; it ends with every sample taken once.
func TestSbatch(t *testing.T) {
	l := open(t)
	job := l.submit("3", "--steps=900", "--step-sleep=20ms")
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
	l.until(time.Minute, "nothing of its first run is left", func() bool {
		return l.must("sinfo", "-h", "-t", "idle", "-o", "%D") == "3"
	})
	l.until(3*time.Minute, "it starts again", func() bool {
		_ = l.command("scontrol", "update", "JobId="+job, "StartTime=now").Run() // else Slurm waits two minutes
		return l.state(job) == "RUNNING"
	})
	l.until(2*time.Minute, "it goes on from a checkpoint", func() bool {
		return regexp.MustCompile(`generation [3-9] running: world size \d, rank \d here, from checkpoint`).
			MatchString(l.output())
	})
	l.until(3*time.Minute, "it is done", func() bool { return l.state(job) == "COMPLETED" })
	if out := l.output(); !strings.Contains(out, "every sample once an epoch") {
		t.Errorf("samples were lost or taken twice:\n%s", out)
	}
}

// TestSbatchWithoutProgram: the mistake is named at once, and nothing is queued again.
func TestSbatchWithoutProgram(t *testing.T) {
	l := open(t)
	script, err := filepath.Abs("../../deploy/slurm/elastic.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	out := l.must("sbatch", "--nodes=1", script)
	job := out[strings.LastIndex(out, " ")+1:]
	l.until(time.Minute, "it failed", func() bool { return l.state(job) == "FAILED" })
	if !l.says("no program. Use: sbatch")() {
		t.Errorf("%s", fmt.Sprint(l.output()))
	}
}
