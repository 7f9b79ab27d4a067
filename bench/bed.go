package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bed is one job for one trial: its directories, server and agents. It is removed when the trial
// ends.
type bed struct {
	bin, dir string
	env      []string
	server   string // "": the local server
	agents   map[string]*exec.Cmd
	frozen   []int
	net      *network
	program  []string // the worker
}

func newBed(ctx context.Context, bin string) (*bed, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "eb")
	if err != nil {
		return nil, err
	}
	b := &bed{bin: bin, dir: dir, agents: map[string]*exec.Cmd{}, program: []string{self, "worker"}}
	for _, d := range []string{"run", "state", "starts"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	b.env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir+"/run", "XDG_STATE_HOME="+dir+"/state", "BENCH_DIR="+
		dir, "ELASTICD_IDLE=1s")
	return b, nil
}

// newNetworkBed is newBed with an elasticd, and with a network namespace for each node.
func newNetworkBed(ctx context.Context, bin string) (*bed, error) {
	b, err := newBed(ctx, bin)
	if err != nil {
		return nil, err
	}
	if b.net, err = newNetwork(ctx, b); err != nil {
		b.remove()
		return nil, err
	}
	b.server = b.net.server
	return b, nil
}

func (b *bed) remove() {
	for _, pid := range b.frozen {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	for node, c := range b.agents {
		for _, pid := range b.processes(node) { // torchrun's workers do not end with it
			syscall.Kill(pid, syscall.SIGKILL)
		}
		c.Wait()
	}
	if b.net != nil {
		b.net.remove()
	}
	if pid := b.localServer(); pid > 0 {
		syscall.Kill(pid, syscall.SIGTERM)
	}
	os.RemoveAll(b.dir)
}

// pause waits for d. It returns an error if ctx ends.
func (b *bed) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// localServer returns the process id of the local server, 0 if there is none.
func (b *bed) localServer() int {
	var hint struct{ PID int }
	if raw, err := os.ReadFile(b.dir + "/run/elastic/elasticd.json"); err != nil ||
		json.Unmarshal(raw, &hint) != nil || hint.PID <= 1 {
		return 0
	}
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", hint.PID)); exe != filepath.Join(b.bin, "elasticd") {
		return 0
	}
	return hint.PID
}

// agent starts a node.
func (b *bed) agent(node, np string, flags ...string) error {
	args := []string{filepath.Join(b.bin, "elastic"), "run", "--np=" + np, "--job-id=b", "--node=" + node,
		"--console=none", "--last-call=100ms"}
	if b.server != "" {
		args = append(args, "--server="+b.server)
	}
	args = append(args, flags...)
	return b.start(node, b.net.inside(node, append(args, b.program...)), b.env)
}

// start starts the agent of a node: Elastic's or torchrun.
func (b *bed) start(node string, args, env []string) error {
	home := filepath.Join(b.dir, node)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = home, env
	out, err := os.OpenFile(filepath.Join(home, "err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	b.agents[node] = c
	return c.Start()
}

// processes returns the agent of a node, first, and all its descendants.
func (b *bed) processes(node string) []int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{b.agents[node].Process.Pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// kill kills processes of a node, among them its agent.
func (b *bed) kill(node string, pids []int) {
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	b.agents[node].Wait()
	delete(b.agents, node)
}

// freeze stops processes until the bed is removed.
func (b *bed) freeze(pids []int) {
	for _, pid := range pids {
		b.frozen = append(b.frozen, pid)
		syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// note is a line that a worker wrote into its file: that it started, or made a step.
type note struct {
	what, worker string // worker is the name of the file
	at           time.Time
}

// notes returns the notes of all workers.
func (b *bed) notes() []note {
	var all []note
	files, _ := filepath.Glob(filepath.Join(b.dir, "starts", "*"))
	for _, f := range files {
		h, err := os.Open(f)
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(h); s.Scan(); {
			what, ns, ok := strings.Cut(s.Text(), " ")
			if n, err := strconv.ParseInt(ns, 10, 64); ok && err == nil {
				all = append(all, note{what, filepath.Base(f), time.Unix(0, n)})
			}
		}
		h.Close()
	}
	return all
}

// running waits until n workers of one generation after g have started. It returns that generation,
// and when the last worker started.
func (b *bed) running(ctx context.Context, g, n int) (int, time.Time, error) {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		byGen := map[int][]note{}
		for _, s := range b.notes() {
			if gen, err := strconv.Atoi(s.what); err == nil && gen > g {
				byGen[gen] = append(byGen[gen], s)
			}
		}
		for gen, s := range byGen {
			if len(s) == n {
				last := slices.MaxFunc(s, func(a, b note) int { return a.at.Compare(b.at) })
				return gen, last.at, nil
			}
		}
		if err := b.pause(ctx, 5*time.Millisecond); err != nil {
			return 0, time.Time{}, err
		}
	}
	events, _ := b.elastic(ctx, "events", "b")
	return 0, time.Time{}, fmt.Errorf("no generation after %d started %d workers within a minute:\n%s",
		g, n, events)
}

// elastic runs a command of elastic, and returns its output.
func (b *bed) elastic(ctx context.Context, args ...string) (string, error) {
	if b.server != "" {
		args = append(args, "--server="+b.server)
	}
	line := b.net.inside("", append([]string{filepath.Join(b.bin, "elastic")}, args...))
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Env = b.env
	out, err := c.CombinedOutput()
	return string(out), err
}

// event is a history event of the job, as `elastic events -o json` prints it.
type event struct {
	Kind       string
	Generation int
	Node       string
	Time       time.Time
	Waterfall  *struct {
		Decided  *int64 `json:"decided_ms"`
		Proposed *int64 `json:"proposed_ms"`
		Stopped  *int64 `json:"stopped_ms"`
		Barrier  *int64 `json:"barrier_ms"`
		Started  *int64 `json:"started_ms"`
	}
}

// event waits for the first event for which want returns true.
func (b *bed) event(ctx context.Context, what string, want func(event) bool) (event, error) {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if out, err := b.elastic(ctx, "events", "b", "-o", "json"); err == nil {
			for l := range strings.Lines(out) {
				var e event
				if json.Unmarshal([]byte(l), &e) == nil && want(e) {
					return e, nil
				}
			}
		}
		if err := b.pause(ctx, 20*time.Millisecond); err != nil {
			return event{}, err
		}
	}
	return event{}, fmt.Errorf("no event %s within a minute", what)
}

// after waits for the first event of a kind at or after a time.
func (b *bed) after(ctx context.Context, kind string, at time.Time) (event, error) {
	return b.event(ctx, kind,
		func(e event) bool { return e.Kind == kind && !e.Time.Before(at.Truncate(time.Millisecond)) })
}
