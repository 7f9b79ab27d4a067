package node

import (
	"path/filepath"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/schema"
)

// writing is what became of the workers of the newest generation, for those who look at their
// files.
type writing struct {
	mu         sync.Mutex
	generation schema.Generation
	state      capture.WorkerState
	pids       func() []int // nil before they started
}

func (w *writing) begin(g schema.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.generation, w.state, w.pids = g, capture.Running, nil
}

// started notes the processes of the workers of g.
func (w *writing) started(g schema.Generation, pids func() []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation == g {
		w.pids = pids
	}
}

// end notes that every worker of g ended; killed: one of them by a signal.
func (w *writing) end(g schema.Generation, killed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != g {
		return
	}
	w.state = capture.Exited
	if killed {
		w.state = capture.Killed
	}
}

// of is what a capture of generation g is told.
func (w *writing) of(g schema.Generation) capture.Workers {
	return capture.Workers{
		State: func() capture.WorkerState {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.generation == g {
				return w.state
			}
			return capture.Killed // an older generation: nothing of it is finished any more
		},
		PIDs: func() []int {
			w.mu.Lock()
			pids := w.pids
			w.mu.Unlock()
			if pids == nil {
				return nil
			}
			return pids()
		},
	}
}

// directory is where the workers save, without what the agent itself keeps there.
func (w *workers) directory() capture.Dir {
	d := capture.Dir{Path: w.checkpoints()}
	for _, x := range []string{w.disk.Dir, filepath.Dir(w.disk.Dir), w.logs.Dir(), w.o.LogDir} {
		if full, err := filepath.Abs(x); err == nil && x != "" {
			d.Exclude = append(d.Exclude, full)
		}
	}
	return d
}
