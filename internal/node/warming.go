package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/python"
)

// warmAfter is how long workers train before warm workers are started. The recovery of a job needs
// all processors before that.
const warmAfter = 10 * time.Second

// warmSettle is how long the memory of warm workers may grow before it is measured.
const warmSettle = 20 * time.Second

// warmLater starts warm workers while the workers of g train. They do the same imports, and wait
// for the next world.
func (w *workers) warmLater(g *worker.Group, spec worker.Spec) {
	script, ok := launch.PythonScript(spec.Argv[0], spec.Argv[1:])
	if !w.o.Warm || !ok || spec.TTY != nil {
		return
	}
	w.effects.Go(func(ctx context.Context) {
		if !during(ctx, g, warmAfter) || !roomToWarm(proc.Memory()) {
			return
		}
		if p := w.warm(spec, w.warming(spec, script)); p != nil && during(ctx, g, warmSettle) {
			w.tellWarm(p)
		}
	})
}

// during waits for d. The result is false if the group or the agent ended before.
func during(ctx context.Context, g *worker.Group, d time.Duration) bool {
	select {
	case <-time.After(d):
		select {
		case <-g.Done():
		default:
			return true
		}
	case <-g.Done():
	case <-ctx.Done():
	}
	return false
}

// warming is how warm workers of a script are started.
func (w *workers) warming(spec worker.Spec, script launch.Script) worker.Warming {
	var hooks [][]string
	for _, env := range spec.Env {
		path := filepath.Join(w.helper(), python.WarmDir)
		for _, kv := range env {
			if given, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok && given != "" {
				path += string(filepath.ListSeparator) + given
			}
		}
		hooks = append(hooks, []string{"PYTHONPATH=" + path,
			"ELASTIC_WARM=" + strconv.Itoa(worker.WarmFD) + ":" + script.Kind + ":" + script.Name})
	}
	ofGeneration := map[string]bool{hang.RASVariable: true} // and those with paths of the generation
	for _, env := range spec.Env {
		for _, kv := range env {
			if name, value, _ := strings.Cut(kv, "="); strings.Contains(value, spec.RunDir) {
				ofGeneration[name] = true
			}
		}
	}
	return worker.Warming{Hook: hooks,
		Late: func(name string) bool { return launch.ForWorkers(name) || ofGeneration[name] }}
}

// warm lets the guardian that stands by start warm workers. It returns nil if it cannot.
func (w *workers) warm(spec worker.Spec, how worker.Warming) *worker.Prepared {
	w.preparing.Lock()
	defer w.preparing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	// without warm workers, the next workers do their imports when they start
	if w.prepared == nil || w.prepared.Warm(spec, how) != nil {
		return nil
	}
	return w.prepared
}

// tellWarm shows once how much memory the warm workers use.
func (w *workers) tellWarm(p *worker.Prepared) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.prepared != p || w.saidWarm {
		return
	}
	if n, bytes := p.Waiting(); n > 0 {
		w.saidWarm = true
		w.notice(fmt.Sprintf("warm workers: %d waiting for the next start, %d MiB of memory; --warm=off "+
			"does without",
			n, bytes>>20))
	}
}

// roomToWarm reports whether a quarter of the memory is free, which warm workers need.
func roomToWarm(total, available int64) bool { return total > 0 && available >= total/4 }
