package run

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/elasticd/elastic/internal/cli/screen"
)

// prefix is the start of each line of run itself.
const prefix = "elastic: "

// echo is the text that a terminal shows for Ctrl-C. The next line of run follows on the same line.
const echo = "^C"

// words is the stderr of run. With -q it drops the lines "elastic: …". On a terminal it breaks them
// between words. It writes the lines of the command after the first line, which has the job's size.
type words struct {
	out      io.Writer // the terminal, or the writer that writes to it above the bar
	terminal io.Writer // lines are broken at its width; no terminal: they are unchanged
	quiet    bool

	mu    sync.Mutex
	after string // guarded by mu; "" after it was written
}

// close writes after if no first line was written.
func (w *words) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after != "" && !w.quiet {
		_ = w.write([]byte(w.after)) // an error is ignored: no later line could report it
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

// write breaks the lines of run. It leaves all other lines unchanged.
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
