package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// round is how long one save took, and how long copies of the same bytes took: the mean of copies
// right before and right after the save.
type round struct {
	copyTimes
	save        time.Duration
	quiet, busy time.Duration // the longest step of the training before the save, and after its rename
}

// copyTimes is how long copies of the bytes of a save take.
type copyTimes struct{ cp, tls time.Duration }

// allowed returns the speed of the save, relative to cp and a TLS copy one after the other.
func (r round) allowed() float64 { return (r.cp + r.tls).Seconds() / r.save.Seconds() }

// between returns the mean of two measurements.
func between(before, after copyTimes) copyTimes {
	return copyTimes{(before.cp + after.cp) / 2, (before.tls + after.tls) / 2}
}

// saving measures the time from a save's rename to its commit with two copies. Both nodes are on
// this machine, which does the work of both. Right before and right after each save, the same file
// is copied with cp and fsync, and through TLS 1.3 and fsync. The first save is not counted.
func saving(ctx context.Context, bin string, trials int, size int64) error {
	b, err := newBed(ctx, bin)
	if err != nil {
		return err
	}
	defer b.remove()
	b.env = append(b.env, fmt.Sprint("BENCH_SIZE=", size))
	b.program[1] = "saver"
	for _, n := range []string{"a", "b"} {
		if err := b.agent(n, "2", "--keep=1", "--save-files=model.bin", "--checkpoint-dir="+
			filepath.Join(b.dir, "work-"+n)); err != nil {
			return err
		}
	}
	if _, _, err := b.running(ctx, 0, 2); err != nil {
		return err
	}
	commits, stop, err := b.commits(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("a checkpoint of %.2f GB, %d trials; %d CPUs, %s; two nodes on one machine\n\n",
		float64(size)/1e9, trials, runtime.NumCPU(), runtime.GOOS)
	_, file, err := b.save(ctx, commits)
	if err != nil {
		return err
	}
	before, err := b.copies(ctx, file)
	if err != nil {
		return err
	}
	fmt.Printf("%8s %10s %12s %14s %10s %8s\n", "seconds", "cp", "TLS copy", "save", "of both", "load")
	var all []round
	for i := range trials {
		r, file, err := b.save(ctx, commits)
		if err != nil {
			return err
		}
		after, err := b.copies(ctx, file)
		if err != nil {
			return err
		}
		r.copyTimes, before = between(before, after), after
		all = append(all, r)
		fmt.Printf("%8d %10.3f %12.3f %14.3f %10.3f %8s\n", i+1, r.cp.Seconds(), r.tls.Seconds(),
			r.save.Seconds(), r.allowed(), load())
	}
	fmt.Println()
	report(all, size)
	for _, n := range []string{"a", "b"} {
		peak, err := memory(b.agents[n].Process.Pid)
		if err != nil {
			return err
		}
		fmt.Printf("%-62s %-14s %7.0f MB\n", "memory of the agent of "+n+" at most", "<= 100 MB",
			float64(peak)/1e6)
	}
	return nil
}

func report(all []round, size int64) {
	fmt.Printf("%-62s %-14s %8s %8s %8s\n", "GB/s", "goal", "min", "p50", "max")
	row := func(name, goal string, of func(round) float64) {
		var v []float64
		for _, r := range all {
			v = append(v, of(r))
		}
		slices.Sort(v)
		fmt.Printf("%-62s %-14s %8.3f %8.3f %8.3f\n", name, goal, v[0], v[len(v)/2], v[len(v)-1])
	}
	speed := func(of func(round) time.Duration) func(round) float64 {
		return func(r round) float64 { return float64(size) / 1e9 / of(r).Seconds() }
	}
	row("cp + fsync", "", speed(func(r round) time.Duration { return r.cp }))
	row("copy through TLS 1.3 + fsync", "", speed(func(r round) time.Duration { return r.tls }))
	row("one after the other", "", speed(func(r round) time.Duration { return r.cp + r.tls }))
	row("rename of a save -> committed, two copies", "", speed(func(r round) time.Duration { return r.save }))
	row("  of what cp and TLS allow", ">= 0.9", round.allowed)
	row("ms: longest step of the training before the save", "",
		func(r round) float64 { return r.quiet.Seconds() * 1e3 })
	row("ms: longest step of the training until the commit", "",
		func(r round) float64 { return r.busy.Seconds() * 1e3 })
}

// save asks the worker for one save. It returns the times and the path of the file.
func (b *bed) save(ctx context.Context, commits <-chan time.Time) (r round, file string, err error) {
	if err := b.tell("save"); err != nil {
		return r, "", err
	}
	var at, quiet int64
	if err := b.answer(ctx, "saved", &file, &at, &quiet); err != nil {
		return r, "", err
	}
	select {
	case committed := <-commits:
		r.save, r.quiet = committed.Sub(time.Unix(0, at)), time.Duration(quiet)
	case <-ctx.Done():
		return r, "", context.Cause(ctx)
	case <-time.After(5 * time.Minute):
		return r, "", errors.New("no commit within five minutes")
	}
	if err := b.tell("longest"); err != nil {
		return r, "", err
	}
	var busy int64
	err = b.answer(ctx, "step", &busy)
	r.busy = time.Duration(busy)
	return r, file, err
}

// copies copies a file in each way.
func (b *bed) copies(ctx context.Context, file string) (c copyTimes, err error) {
	for _, way := range []struct {
		took *time.Duration
		copy func(from, to string) error
	}{{&c.cp, copyFile}, {&c.tls, copyTLS}} {
		if err := b.rest(ctx); err != nil {
			return c, err
		}
		to, began := filepath.Join(b.dir, "copy"), time.Now()
		if err := way.copy(file, to); err != nil {
			return c, err
		}
		*way.took = time.Since(began)
		if err := os.Remove(to); err != nil {
			return c, err
		}
	}
	return c, b.rest(ctx)
}

// rest makes measurements start under equal conditions: no bytes are left to write, and a virtual
// machine has had time to return freed memory to its host. That slows down the next use of the
// memory.
func (b *bed) rest(ctx context.Context) error {
	syscall.Sync()
	return b.pause(ctx, 4*time.Second)
}

// commits returns a channel with the time at which each commit could be read.
func (b *bed) commits(ctx context.Context) (<-chan time.Time, func(), error) {
	ctx, stop := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, filepath.Join(b.bin, "elastic"), "events", "b", "-f", "-o", "json")
	c.Env = b.env
	out, err := c.StdoutPipe()
	if err != nil {
		stop()
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		stop()
		return nil, nil, err
	}
	commits, done := make(chan time.Time, 1), make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			var e struct{ Kind string }
			if json.Unmarshal(s.Bytes(), &e) == nil && e.Kind == "checkpoint_committed" {
				select {
				case commits <- time.Now():
				case <-ctx.Done():
				}
			}
		}
	}()
	return commits, func() { stop(); <-done; _ = c.Wait() }, nil // Wait returns that it was killed
}

// tell sends a request to the worker of rank 0: it makes a file, which the worker removes. answer
// waits for a file of the worker, and removes it.
func (b *bed) tell(what string) error { return os.WriteFile(filepath.Join(b.dir, what), nil, 0o600) }

func (b *bed) answer(ctx context.Context, what string, to ...any) error {
	name := filepath.Join(b.dir, what)
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end) &&
		b.pause(ctx, 5*time.Millisecond) == nil; {
		raw, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = fmt.Sscan(string(raw), to...)
		}
		return errors.Join(err, os.Remove(name))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the worker of rank 0 did not answer (%s) within five minutes", what)
}

// memory returns the largest resident memory that a process has had.
func memory(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	var kb int64
	_, err = fmt.Sscan(rest, &kb)
	return kb << 10, err
}
