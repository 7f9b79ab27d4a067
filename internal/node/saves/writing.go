package saves

import (
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/schema"
)

// writing is the state of the workers of the newest generation. The captures of their files read
// it.
type writing struct {
	mu         sync.Mutex
	generation schema.Generation
	state      capture.WorkerState
}

// begin records that the workers of g are about to start.
func (w *writing) begin(g schema.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.generation, w.state = g, capture.Running
}

// end records that all workers of g have ended, and how.
func (w *writing) end(g schema.Generation, how capture.WorkerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != g {
		return
	}
	w.state = how
}

// of returns the state of the workers of g, for a capture.
func (w *writing) of(g schema.Generation) capture.Workers {
	return capture.Workers{
		State: func() capture.WorkerState {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.generation == g {
				return w.state
			}
			return capture.Killed // an older generation: its unfinished files stay unfinished
		},
	}
}

// WorkersEnded records that all workers of g have ended, and whether one failed or was killed.
func (s *Saves) WorkersEnded(g schema.Generation, how capture.WorkerState) { s.writing.end(g, how) }
