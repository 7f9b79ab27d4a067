package run

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// A user who forgot https:// gets that as the reason, and not that the server is something else.
func TestTLSIsNamed(t *testing.T) {
	e := screen.KnownProblem(fmt.Errorf("host:2379: %w: %w", etcd.ErrWantsTLS, errors.New("EOF")))
	if e.Code != problem.ServerWrong || !strings.Contains(e.Message, "TLS") ||
		!strings.Contains(e.Fix, "--server=https://") || !strings.Contains(e.Fix, "--cacert") {
		t.Errorf("%s [%s], why %s, fix %s", e.Message, e.Code, e.Why, e.Fix)
	}
}

// The line about a started local server is written after the first line of a run, or alone if there
// is none.
func TestWhatComesAfterTheFirstLine(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		quiet bool
		want  string
	}{
		"two lines": {[]string{"elastic: job x\n", "elastic: more\n"}, false,
			"elastic: job x\nelastic: started\nelastic: more\n"},
		"no line":    {nil, false, "elastic: started\n"},
		"quiet":      {[]string{"elastic: job x\n"}, true, ""},
		"quiet, raw": {[]string{"ABORT!!!\n"}, true, "ABORT!!!\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			w := &words{out: &b, quiet: c.quiet, after: "elastic: started\n"}
			for _, l := range c.lines {
				if _, err := w.Write([]byte(l)); err != nil {
					t.Fatal(err)
				}
			}
			w.close()
			if got := b.String(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The lines of run fit the terminal, also with a bar below them.
func TestLinesFitTheTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: 42}); err != nil {
		t.Fatal(err)
	}
	bar := screen.NewBar(terminal)
	defer bar.Close()
	var b strings.Builder
	w := &words{out: bar.Over(&b), terminal: terminal}
	if _, err := w.Write(
		[]byte("elastic: job x: np=2 nodes x 1 worker = world size 2; this node is a\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(),
		"elastic: job x: np=2 nodes x 1 worker =\n         world size 2; this node is a\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
