package saves

import (
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/schema"
)

// writing is the state of the workers of the newest generation, for the watchers of their
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

// end notes that every worker of g ended, and how.
func (w *writing) end(g schema.Generation, how capture.WorkerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != g {
		return
	}
	w.state = how
}

// of is what a capture of generation g is given.
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

// WorkersStarted notes the processes of the workers of g.
func (s *Saves) WorkersStarted(g schema.Generation, pids func() []int) { s.writing.started(g, pids) }

// WorkersEnded notes that every worker of g ended, and whether one failed or was killed.
func (s *Saves) WorkersEnded(g schema.Generation, how capture.WorkerState) { s.writing.end(g, how) }
