package run

import (
	"bytes"
	"io"
	"sync"
)

// words is the stderr of run: with -q only what is no "elastic: …". The first line of a run is the
// arithmetic of its job; what the command itself has to tell comes after it.
type words struct {
	out   io.Writer
	quiet bool

	mu    sync.Mutex
	after string // guarded by mu; "" once it was told
}

// close tells what was to come after a first line that never came.
func (w *words) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after != "" && !w.quiet {
		_, _ = io.WriteString(w.out, w.after)
		w.after = ""
	}
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet && bytes.HasPrefix(p, []byte("elastic: ")) {
		return len(p), nil
	}
	n, err := w.out.Write(p)
	if err == nil && w.after != "" && !w.quiet {
		_, err = io.WriteString(w.out, w.after)
		w.after = ""
	}
	return n, err
}
