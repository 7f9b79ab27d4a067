//go:build slurm

package slurm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
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
	t.Cleanup(func() { _ = os.RemoveAll(base) }) // an error only leaves files behind
	l := &lab{t: t, conf: filepath.Join(base, "lab", "slurm.conf"), dir: filepath.Join(base, "work")}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("./cluster.sh", filepath.Join(base, "lab"))
	log, err := os.Create(filepath.Join(base, "cluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	script.Stdout, script.Stderr = log, log
	outside.Start(t, script, func() {
		_ = l.command("scancel", "--me", "--full").Run() // an error: there may be none
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
	if name == "elastic-demo" { // PATH of the child is not that of the test
		name = filepath.Join(bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "SLURM_CONF="+l.conf, "PATH="+bin+":"+os.Getenv("PATH"),
		"ELASTIC_STATE_DIR="+filepath.Join(l.dir, "state"), "ELASTIC_MAX=3",
		"ELASTIC_RUN_ARGS=--last-call=1s --batch-size=96 --lr=0.1 --scaling=fixed-batch")
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

// submit queues a job of the bundled trainer, 20 ms a step, and returns its number. It is Slurm's
// options and how many steps to make.
func (l *lab) submit(steps int, options ...string) string {
	l.t.Helper()
	return l.queue(options, "train", "--steps="+strconv.Itoa(steps), "--step-sleep=20ms")
}

// queue queues a job that runs a program.
func (l *lab) queue(options []string, program ...string) string {
	l.t.Helper()
	script, err := filepath.Abs("../../deploy/slurm/elastic.sbatch")
	if err != nil {
		l.t.Fatal(err)
	}
	return l.must("sbatch", slices.Concat([]string{"--parsable"}, options, []string{script}, program)...)
}

// undisturbed is how training ends on one machine without Elastic: its loss and accuracy.
func (l *lab) undisturbed(steps int) string {
	l.t.Helper()
	out := l.must("elastic-demo", "--batch-size=96", "--lr=0.1", "--pace=0", "--steps="+strconv.Itoa(steps))
	return "; " + out[strings.LastIndex(out, "loss"):]
}

// done waits for the end of a job, whose result must be that of the undisturbed run.
func (l *lab) done(job string, steps int) {
	l.t.Helper()
	l.until(4*time.Minute, "it is done", func() bool {
		l.start(job)
		return l.state(job) == "COMPLETED"
	})
	out := l.output()
	if !strings.Contains(out, "every sample once an epoch") || !strings.Contains(out, l.undisturbed(steps)) {
		l.t.Errorf("the undisturbed run ends with %q:\n%s", l.undisturbed(steps), out)
	}
}

// start begins a job that was queued again. Slurm would wait two minutes.
func (l *lab) start(job string) {
	// it is refused when the job runs
	_ = l.command("scontrol", "update", "JobId="+job, "StartTime=now").Run()
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
			if err == nil && filepath.Base(name) == "elastic" &&
				strings.Contains(string(line), "\x00run\x00") &&
				strings.Contains(string(env), "SLURMD_NODENAME="+node+"\x00") &&
				strings.Contains(string(env), l.conf) {
				found, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
				return true
			}
		}
		return false
	})
	return found
}

// idle waits until nothing of the jobs of before is left.
func (l *lab) idle() {
	l.t.Helper()
	l.until(time.Minute, "all nodes are idle",
		func() bool { return l.must("sinfo", "-h", "-t", "idle", "-o", "%D") == "3" })
}

// restarts is how often Slurm queued a job again.
func (l *lab) restarts(job string) int {
	n, err := strconv.Atoi(regexp.MustCompile(`Restarts=(\d+)`).
		FindStringSubmatch(l.must("scontrol", "show", "job", job))[1])
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// daemon is the process of slurmd of a node.
func (l *lab) daemon(node string) int {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(l.conf), "state", node+".pid"))
	if err != nil {
		l.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		l.t.Fatal(err)
	}
	return pid
}

// parent is the process that started another.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}
