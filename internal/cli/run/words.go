package run

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/elasticd/elastic/internal/cli/screen"
)

// prefix begins every line of run itself.
const prefix = "elastic: "

// echo is what a terminal shows of Ctrl-C: the next line of ours begins behind it.
const echo = "^C"

// words is the stderr of run: with -q without the lines "elastic: …", and on a terminal broken
// between words. The first line of a run is the arithmetic of its job; lines of the command itself
// come after it.
type words struct {
	out      io.Writer // the terminal, or what writes to it above the bar
	terminal io.Writer // lines are broken at its width; if it is no terminal they stay as they are
	quiet    bool

	mu    sync.Mutex
	after string // guarded by mu; "" once it was printed
}

// close tells what was to come after a first line that never came.
func (w *words) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after != "" && !w.quiet {
		_ = w.write([]byte(w.after)) // there is no later line that could tell of a lost terminal
		w.after = ""
	}
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet && bytes.HasPrefix(p, []byte(prefix)) {
		return len(p), nil
	}
	n, err := len(p), w.write(p)
	if err == nil && w.after != "" && !w.quiet {
		err = w.write([]byte(w.after))
		w.after = ""
	}
	return n, err
}

// write writes lines of ours. Everything else is as its writer made it.
func (w *words) write(p []byte) error {
	columns := screen.Columns(w.terminal)
	if columns == 0 {
		_, err := w.out.Write(p)
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		text, ended := strings.CutSuffix(line, "\n")
		if ended && strings.HasPrefix(text, prefix) {
			line = screen.Fold(text, columns-len(echo), len(prefix)) + "\n"
		}
		b.WriteString(line)
	}
	_, err := io.WriteString(w.out, b.String())
	return err
}
