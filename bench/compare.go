package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// step is the script that the workers of all systems run.
//
//go:embed step.py
var step []byte

// system is a program that starts workers. All its timers have their defaults.
type system struct {
	name  string
	agent func(b *bed, node, np string) error
	// settles is how long a job runs before the fault. By then the first rendezvous is over, and
	// warm workers wait.
	settles time.Duration
}

// contest is a fault or change that happens to a job of each system.
type contest struct {
	name   string
	np     string
	before []string // nodes that run before it
	train  bool     // whether they train then
	after  int      // how many workers have to start after it
	happen func(*bed, func(node string) error) error
}

var contests = []contest{
	{"agent and worker of 1 of 3 nodes killed (2:3)", "2:3", []string{"a", "b", "c"}, true, 2,
		func(b *bed, _ func(string) error) error { b.kill("c", b.processes("c")); return nil }},
	{"1 of 3 nodes stands still (2:3)", "2:3", []string{"a", "b", "c"}, true, 2,
		func(b *bed, _ func(string) error) error { b.freeze(b.processes("c")); return nil }},
	{"worker of 1 of 2 nodes crashes (2)", "2", []string{"a", "b"}, true, 2,
		func(b *bed, _ func(string) error) error { return b.crash() }},
	{"the last needed node comes (2)", "2", []string{"a"}, false, 2,
		func(_ *bed, up func(string) error) error { return up("b") }},
	{"one more node comes to a job that trains (1:2)", "1:2", []string{"a"}, true, 2,
		func(_ *bed, up func(string) error) error { return up("b") }},
}

// patience is how long the workers may take to start, and then to make a step. torchrun takes 46 s.
const patience = 100 * time.Second

// tried is the result of one trial.
type tried struct {
	started, step time.Duration
	stood         time.Duration // the longest time without a step of any worker
	lost          bool          // the workers did not start, or made no step
}

// compare runs all contests with Elastic and with torchrun. All workers run the same script.
func (o options) compare(ctx context.Context) error {
	python, err := o.torch()
	if err != nil {
		fmt.Printf("\nNot compared with torchrun: %v\n", err)
		return nil
	}
	version, err := exec.Command(python, "-c", "import torch; print(torch.__version__)").Output()
	if err != nil {
		return fmt.Errorf("import torch with %s: %w", python, err)
	}
	torch := strings.TrimSpace(string(version))
	systems := []system{{"warm", elasticAgent(python), 20 * time.Second},
		{"torchrun", torchrunAgent(python, torch), 3 * time.Second},
		{"cold", elasticAgent(python, "--warm=off"), 3 * time.Second},
		{"in place", elasticAgent(python, "in-place"), 3 * time.Second}}
	fmt.Printf("\nElastic (restarted warm, restarted cold, in place) beside torchrun, torch %s, c10d "+
		"rendezvous: the "+
		"same worker, an all-reduce over\ngloo on CPU; %d trials each. Seconds until all needed new "+
		"workers started, "+
		"until each made a step, and the longest time without a\nstep of any worker; lost: not within %s\n",
		torch, o.peer, patience)
	fmt.Printf("%-48s %-9s %9s %9s %9s %9s %9s %9s %6s\n", "", "", "started", "max", "step", "max",
		"stood", "max", "lost")
	for _, c := range contests {
		if !strings.Contains("compare "+c.name, o.only) {
			continue
		}
		var typical []time.Duration
		for _, s := range systems {
			t, err := o.series(ctx, s, c)
			if err != nil {
				return err
			}
			typical = append(typical, t.started.at(0.5), t.steps.at(0.5))
		}
		ratio := func(i int) string { // torchrun's time divided by that of warm workers
			if typical[i] == 0 || typical[i+2] == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f", typical[i+2].Seconds()/typical[i].Seconds())
		}
		fmt.Printf("%-48s %-9s %9s %9s %9s\n", "", "ratio", ratio(0), "", ratio(1))
	}
	fmt.Printf("load at the end %s\n", load())
	return nil
}

// trials has the results of one system in one contest.
type trials struct{ started, steps, stood spread }

// series runs all trials of one contest with one system, and prints the row.
func (o options) series(ctx context.Context, s system, c contest) (all trials, err error) {
	lost := 0
	for k := range o.peer {
		progress("%s, %s: %d of %d", c.name, s.name, k+1, o.peer)
		t, err := o.contend(ctx, s, c)
		if err != nil {
			progress("")
			return all, fmt.Errorf("%s, %s, trial %d: %w", c.name, s.name, k+1, err)
		}
		if t.started > 0 {
			all.started = append(all.started, t.started)
		}
		if t.lost {
			lost++
		} else {
			all.steps, all.stood = append(all.steps, t.step), append(all.stood, t.stood)
		}
	}
	progress("")
	fmt.Printf("%-48s %-9s %9s %9s %9s %9s %9s %9s %6s\n", c.name, s.name, all.started.text(0.5),
		all.started.text(1), all.steps.text(0.5), all.steps.text(1), all.stood.text(0.5), all.stood.text(1),
		fmt.Sprintf("%d of %d", lost, o.peer))
	return all, nil
}

func (s spread) text(q float64) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", s.at(q).Seconds())
}

// torch returns the interpreter that has torch: the one that was given, else that of the machine.
func (o options) torch() (string, error) {
	python := o.python
	if venv := os.Getenv("TORCHRUN"); python == "" && venv != "" {
		python = filepath.Join(venv, "bin", "python")
	}
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.Command(python, "-c", "import torch").CombinedOutput(); err != nil {
		return "", fmt.Errorf(
			"%s has no torch (TORCHRUN=VENV names another, with `pip install torch numpy`): %s",
			python, lastLine(string(out)))
	}
	return python, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// elasticAgent runs the worker with Elastic. how has flags of `elastic run` and arguments of the
// worker.
func elasticAgent(python string, how ...string) func(*bed, string, string) error {
	return func(b *bed, node, np string) error {
		args := []string{filepath.Join(b.bin, "elastic"), "run", "--np=" + np, "--job-id=b", "--node=" + node,
			"--console=none"}
		worker := []string{python, filepath.Join(b.dir, "step.py")}
		for _, h := range how {
			if strings.HasPrefix(h, "--") {
				args = append(args, h)
			} else {
				worker = append(worker, h)
			}
		}
		return b.start(node, append(args, worker...), b.env)
	}
}

func torchrunAgent(python, version string) func(*bed, string, string) error {
	port := 0
	return func(b *bed, node, np string) error {
		if node == "a" { // the first node has the c10d store
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			port = l.Addr().(*net.TCPAddr).Port
			l.Close()
		}
		args := []string{python, "-m", "torch.distributed.run", "--nnodes=" + np,
			"--nproc_per_node=1", "--rdzv_id=b", "--rdzv_backend=c10d",
			fmt.Sprintf("--rdzv_endpoint=127.0.0.1:%d", port), "--max_restarts=10"}
		if strings.HasPrefix(version, "1.13") { // with Python 3.11 it needs these flags to start workers
			args = append(args, "-r", "1", "-t", "1")
		}
		return b.start(node, append(args, filepath.Join(b.dir, "step.py")),
			append(b.env, "OMP_NUM_THREADS=1"))
	}
}

// contend runs one trial of one system.
func (o options) contend(ctx context.Context, s system, c contest) (tried, error) {
	b, err := newBed(ctx, o.bin)
	if err != nil {
		return tried{}, err
	}
	defer b.remove()
	if err := os.WriteFile(filepath.Join(b.dir, "step.py"), step, 0o600); err != nil {
		return tried{}, err
	}
	b.env = append(b.env, "OMP_NUM_THREADS=1")
	up := func(node string) error { return s.agent(b, node, c.np) }
	for _, n := range c.before {
		if err := up(n); err != nil {
			return tried{}, err
		}
	}
	if c.train {
		if _, ok := b.since(ctx, time.Time{}, "step", len(c.before)); !ok {
			return tried{}, cmp.Or(context.Cause(ctx), errors.New("it did not begin to train"))
		}
	}
	if err := b.pause(ctx, s.settles); err != nil {
		return tried{}, err
	}
	at := time.Now()
	if err := c.happen(b, up); err != nil {
		return tried{}, err
	}
	var t tried
	last, ok := b.since(ctx, at, "started", c.after)
	if when, err := b.crashed(); err == nil {
		at = when
	}
	if !ok {
		t.lost = true
		return t, nil
	}
	t.started = last.Sub(at)
	last, ok = b.since(ctx, at, "step", c.after)
	t.step, t.lost, t.stood = last.Sub(at), !ok, b.stood(at, last)
	return t, nil
}

// stood returns the longest time without a step of any worker, from the last step before at until
// end.
func (b *bed) stood(at, end time.Time) (longest time.Duration) {
	all := b.notes()
	slices.SortFunc(all, func(x, y note) int { return x.at.Compare(y.at) })
	var before time.Time
	for _, x := range all {
		if x.what != "step" && x.what != "on" || x.at.After(end) {
			continue
		}
		if !before.IsZero() && x.at.After(at) {
			longest = max(longest, x.at.Sub(before))
		}
		before = x.at
	}
	return longest
}

// since waits until n workers that started after a time have made a note, and returns when the last
// one did. It gives up early when no agent runs any more.
func (b *bed) since(ctx context.Context, at time.Time, what string, n int) (time.Time, bool) {
	for end := time.Now().Add(patience); time.Now().Before(end) && b.pause(ctx, 20*time.Millisecond) == nil; {
		fresh := map[string]bool{}
		first := map[string]time.Time{} // the first such note of each worker
		all := b.notes()
		for _, x := range all {
			fresh[x.worker] = fresh[x.worker] || x.what == "started" && x.at.After(at)
		}
		for _, x := range all {
			if before, ok := first[x.worker]; ok && !x.at.Before(before) {
				continue
			}
			if fresh[x.worker] && x.what == what && x.at.After(at) && alive(x.worker) {
				first[x.worker] = x.at
			}
		}
		if len(first) >= n {
			return slices.SortedFunc(maps.Values(first), time.Time.Compare)[n-1], true
		}
		if !slices.ContainsFunc(b.living(), alive) {
			return time.Time{}, false
		}
	}
	return time.Time{}, false
}

func (b *bed) living() (pids []string) {
	for _, c := range b.agents {
		pids = append(pids, fmt.Sprint(c.Process.Pid))
	}
	return pids
}

// alive reports whether a process runs, and is not a zombie.
func alive(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(raw), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}
