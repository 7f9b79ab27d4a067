package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Pulses returns the pulses of all workers, by local rank.
func (g *Group) Pulses() []hang.Pulse {
	all, err := proc.All()
	if err != nil {
		return nil
	}
	connections := hang.Connections()
	pulses := make([]hang.Pulse, len(g.workers))
	for i, w := range g.workers {
		var pids []int
		var cpu time.Duration
		for _, x := range proc.Below(all,
			func(x proc.Process) bool { return x.PID == w.PID && x.Start == w.Start }) {
			pids = append(pids, x.PID)
			cpu += x.CPU
		}
		p := hang.Processes(pids, connections)
		p.CPU = cpu
		logs := g.spec.Logs
		for _, path := range []string{logs.Path(g.spec.First + i), logs.ErrPath(g.spec.First + i),
			filepath.Join(g.spec.RunDir, strconv.Itoa(g.spec.First+i), "progress.jsonl")} {
			if info, err := os.Stat(path); err == nil {
				p.Output += info.Size()
			}
		}
		pulses[i] = p
	}
	return pulses
}

// Ending reports whether the workers were asked to end, or are being ended.
func (g *Group) Ending() bool { return g.ending.Load() }
