package worker

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/worker/proc"
)

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

// signal sends a signal to one worker, and reports whether the worker is alive.
func (g *Group) signal(i int, sig syscall.Signal) bool {
	w := g.workers[i]
	p, ok := proc.Find(w.PID)
	return ok && p.Start == w.Start && p.Signal(sig) == nil
}
