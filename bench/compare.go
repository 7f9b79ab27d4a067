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

// step is the worker of both systems; inPlace is it with the helper's training function, for
// Elastic alone.
var (
	//go:embed step.py
	step []byte
	//go:embed inplace.py
	inPlace []byte
)

// system is who starts the workers, as it comes: every timer at its default.
type system struct {
	name  string
	agent func(b *bed, node, np string) error
}

// contest is one thing that happens to a job of either system.
type contest struct {
	name   string
	np     string
	before []string // nodes that train, or wait, before it
	train  bool     // they do
	after  int      // workers that have to start after it
	happen func(*bed, func(node string) error) error
}

var contests = []contest{
	{"agent and worker of 1 of 3 nodes killed (2:3)", "2:3", []string{"a", "b", "c"}, true, 2,
		func(b *bed, _ func(string) error) error { b.kill("c", true); return nil }},
	{"1 of 3 nodes stands still (2:3)", "2:3", []string{"a", "b", "c"}, true, 2,
		func(b *bed, _ func(string) error) error { b.freeze("c", true); return nil }},
	{"worker of 1 of 2 nodes crashes (2)", "2", []string{"a", "b"}, true, 2,
		func(b *bed, _ func(string) error) error { return b.crash() }},
	{"the last needed node comes (2)", "2", []string{"a"}, false, 2,
		func(_ *bed, up func(string) error) error { return up("b") }},
	{"one more node comes to a job that trains (1:2)", "1:2", []string{"a"}, true, 2,
		func(_ *bed, up func(string) error) error { return up("b") }},
}

// patience is how long the workers of a contest may take to start, and then to make a step.
// torchrun takes 46 s.
const patience = 100 * time.Second

// tried is one trial; lost: the workers did not start, or made no step.
type tried struct {
	started, step time.Duration
	lost          bool
}

// compare lets both systems run the same worker through the same things.
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
	systems := []system{{"Elastic", elasticAgent(python, "step.py")}, {"torchrun", torchrunAgent(python, torch)},
		{"in place", elasticAgent(python, "inplace.py")}}
	fmt.Printf("\nBeside torchrun, torch %s, c10d rendezvous: the same worker, an all-reduce over "+
		"gloo on CPU; %d trials each. Seconds until all\n"+
		"needed new workers started, and until each made a step; lost: not within %s\n", torch, o.peer, patience)
	fmt.Printf("%-48s %-9s %9s %9s %9s %9s %6s\n", "", "", "started", "max", "step", "max", "lost")
	for _, c := range contests {
		if !strings.Contains("compare "+c.name, o.only) {
			continue
		}
		var typical []time.Duration
		for _, s := range systems {
			var started, steps spread
			lost := 0
			for k := range o.peer {
				progress("%s, %s: %d of %d", c.name, s.name, k+1, o.peer)
				t, err := o.contend(ctx, s, c)
				if err != nil {
					progress("")
					return fmt.Errorf("%s, %s, trial %d: %w", c.name, s.name, k+1, err)
				}
				if t.started > 0 {
					started = append(started, t.started)
				}
				if t.lost {
					lost++
				} else {
					steps = append(steps, t.step)
				}
			}
			progress("")
			fmt.Printf("%-48s %-9s %9s %9s %9s %9s %6s\n", c.name, s.name, started.text(0.5), started.text(1),
				steps.text(0.5), steps.text(1),
				fmt.Sprintf("%d of %d", lost, o.peer))
			typical = append(typical, started.at(0.5), steps.at(0.5))
		}
		ratio := func(i int) string {
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

func (s spread) text(q float64) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", s.at(q).Seconds())
}

// torch is the interpreter that has torch: what was given, else the machine's own.
func (o options) torch() (string, error) {
	python := o.python
	if venv := os.Getenv("TORCHRUN"); python == "" && venv != "" {
		python = filepath.Join(venv, "bin", "python")
	}
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.Command(python, "-c", "import torch").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s has no torch (TORCHRUN=VENV names another, with `pip install torch numpy`): %s",
			python, lastLine(string(out)))
	}
	return python, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func elasticAgent(python, worker string) func(*bed, string, string) error {
	return func(b *bed, node, np string) error {
		return b.start(node, []string{filepath.Join(b.bin, "elastic"), "run", "--np=" + np, "--job-id=b", "--node=" +
			node, "--console=none",
			python, filepath.Join(b.dir, worker)}, b.env)
	}
}

func torchrunAgent(python, version string) func(*bed, string, string) error {
	port := 0
	return func(b *bed, node, np string) error {
		if node == "a" { // the first has the store
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			port = l.Addr().(*net.TCPAddr).Port
			l.Close()
		}
		args := []string{python, "-m", "torch.distributed.run", "--nnodes=" + np, "--nproc_per_node=1", "--rdzv_id=b",
			"--rdzv_backend=c10d",
			fmt.Sprintf("--rdzv_endpoint=127.0.0.1:%d", port), "--max_restarts=10"}
		if strings.HasPrefix(version, "1.13") { // with Python 3.11 it starts nothing without these two
			args = append(args, "-r", "1", "-t", "1")
		}
		return b.start(node, append(args, filepath.Join(b.dir, "step.py")), append(b.env, "OMP_NUM_THREADS=1"))
	}
}

// contend is one trial of one system.
func (o options) contend(ctx context.Context, s system, c contest) (tried, error) {
	b, err := newBed(ctx, o.bin, false)
	if err != nil {
		return tried{}, err
	}
	defer b.remove()
	for name, text := range map[string][]byte{"step.py": step, "inplace.py": inPlace} {
		if err := os.WriteFile(filepath.Join(b.dir, name), text, 0o600); err != nil {
			return tried{}, err
		}
	}
	b.env = append(b.env, "OMP_NUM_THREADS=1")
	up := func(node string) error { return s.agent(b, node, c.np) }
	for _, n := range c.before {
		if err := up(n); err != nil {
			return tried{}, err
		}
	}
	if c.train {
		if _, ok := b.since(time.Time{}, "step", len(c.before), patience); !ok {
			return tried{}, cmp.Or(context.Cause(ctx), errors.New("it did not begin to train"))
		}
	}
	// The first rendezvous is over, and what a node that waits needs to come up.
	if err := b.pause(3 * time.Second); err != nil {
		return tried{}, err
	}
	at := time.Now()
	if err := c.happen(b, up); err != nil {
		return tried{}, err
	}
	var t tried
	last, ok := b.since(at, "started", c.after, patience)
	if when, err := b.crashed(); err == nil {
		at = when
	}
	if !ok {
		t.lost = true
		return t, nil
	}
	t.started = last.Sub(at)
	last, ok = b.since(at, "step", c.after, patience)
	t.step, t.lost = last.Sub(at), !ok
	return t, nil
}

// since waits until n workers that started after a moment made a note, and returns when the last
// did. It gives up early when no agent is left.
func (b *bed) since(at time.Time, what string, n int, limit time.Duration) (time.Time, bool) {
	for end := time.Now().Add(limit); time.Now().Before(end) && b.pause(20*time.Millisecond) == nil; {
		fresh := map[string]bool{}
		first := map[string]time.Time{} // of each worker after the moment
		all := b.notes()
		for _, x := range all {
			fresh[x.who] = fresh[x.who] || x.what == "started" && x.at.After(at)
		}
		for _, x := range all {
			if before, ok := first[x.who]; ok && !x.at.Before(before) {
				continue
			}
			if fresh[x.who] && x.what == what && x.at.After(at) && alive(x.who) {
				first[x.who] = x.at
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

// alive reports whether a process runs: one that nobody has waited for does not.
func alive(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(raw), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}
