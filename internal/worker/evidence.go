package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/regular"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// dyingLimit is how long a worker may take to write its stack and end.
const dyingLimit = 1500 * time.Millisecond

// workWindow is for how long workers are watched before they are asked.
const workWindow = 500 * time.Millisecond

// Look gathers evidence of all workers, by local rank. It changes none of them. It measures what they
// do before it asks them, because an answer is work too.
func (g *Group) Look(ctx context.Context) (all []hang.Evidence) {
	working := g.working(ctx)
	all = make([]hang.Evidence, len(g.workers))
	var each sync.WaitGroup
	for i, w := range g.workers {
		each.Go(func() {
			dir := g.runDir(i)
			all[i] = hang.Inspect(ctx, w.PID, dir)
			all[i].LocalRank, all[i].Rank, all[i].Working = i, g.rank(i), working[i]
			if all[i].Stack == "" && !all[i].Stopped() &&
				proc.Handles(w.PID, hang.StuckSignal) == proc.Caught {
				all[i].Stack = hang.Stuck(ctx, dir, func(s syscall.Signal) bool { return g.signal(i, s) })
			}
		})
	}
	var first hang.Evidence
	if len(all) > 0 && g.rank(0) == 0 {
		first.NCCL = hang.AskRAS(ctx, g.spec.Env[0])
	}
	if each.Wait(); len(all) > 0 {
		all[0].NCCL = first.NCCL
	}
	return all
}

// runDir is the directory of a worker, by local rank.
func (g *Group) runDir(i int) string {
	return filepath.Join(g.spec.RunDir, strconv.Itoa(g.spec.First+i))
}

// Progress returns the newest line of progress of each worker, by local rank; "": there is none.
func (g *Group) Progress() []string {
	lines := make([]string, len(g.workers))
	for i := range lines {
		lines[i] = hang.Progress(g.runDir(i))
	}
	return lines
}

// working reports which workers do something now, with all processes below them.
func (g *Group) working(ctx context.Context) []bool {
	look := func() hang.Look {
		return hang.Look{At: time.Now(), Pulses: g.Pulses(), Disk: hang.DiskBytes()}
	}
	before, working := look(), make([]bool, len(g.workers))
	select {
	case <-ctx.Done():
		return working
	case <-time.After(workWindow):
	}
	now := look()
	for i := range working {
		working[i] = hang.Working(before, now, i)
	}
	return working
}

// Inspect is Look before the workers are ended. If it finds no stack of a Python worker, it stops
// this worker (SIGSTOP) until Stacks or the end of the group.
func (g *Group) Inspect(ctx context.Context) []hang.Evidence {
	all := g.Look(ctx)
	for i, e := range all {
		if e.Stack == "" && !e.Stopped() &&
			proc.Handles(e.PID, syscall.SIGABRT) == proc.Caught {
			g.held[i].Store(g.signal(i, syscall.SIGSTOP))
		}
	}
	return all
}

// Stacks ends the stopped workers with SIGABRT, so that Python's faulthandler writes the stacks of
// all threads. The caller ends the group afterwards. The result is by local rank, "" for a worker
// that was not stopped or wrote nothing.
func (g *Group) Stacks(ctx context.Context) []string {
	stacks := make([]string, len(g.workers))
	var each sync.WaitGroup
	for i := range g.workers {
		if g.held[i].CompareAndSwap(true, false) {
			each.Go(func() { stacks[i] = g.abort(ctx, i) })
		}
	}
	each.Wait()
	return stacks
}

// signal sends a signal to one worker, and reports whether the worker is alive.
func (g *Group) signal(i int, sig syscall.Signal) bool {
	w := g.workers[i]
	p, ok := proc.Find(w.PID)
	return ok && p.Start == w.Start && p.Signal(sig) == nil
}

// abort ends a stopped worker with SIGABRT, and returns the stacks that it wrote. It prevents a
// core dump.
func (g *Group) abort(ctx context.Context, i int) string {
	w := g.workers[i]
	path := g.spec.Logs.Path(g.logOf(i))
	if g.spec.Logs.Apart() {
		path = g.spec.Logs.ErrPath(g.logOf(i))
	}
	before := sizeOf(path)
	// writing the core of a large process takes minutes
	_ = unix.Prlimit(w.PID, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	g.aborted[i].Store(true)
	// SIGABRT is pending until SIGCONT, and the process then sees it first.
	if !g.signal(i, syscall.SIGABRT) || !g.signal(i, syscall.SIGCONT) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, dyingLimit)
	defer cancel()
	_ = proc.Until(ctx, func() error {
		if now, ok := proc.Find(w.PID); ok && now.Start == w.Start && !now.Gone() {
			return fmt.Errorf("process %d lives", w.PID)
		}
		return nil
	})
	for _, pump := range g.pumps[i] {
		pump.Settle()
	}
	return readFrom(path, before)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// readFrom reads the first bytes of a file after an offset.
func readFrom(path string, offset int64) string {
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.NewSectionReader(f, offset, hang.StackBytes)) // part of it after an error
	return string(b)
}
