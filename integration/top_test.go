package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// terminal is a real terminal: a window of tmux.
type terminal struct {
	p      *sandbox
	socket string
}

// newTerminal runs elastic with args in a terminal of that size.
func newTerminal(p *sandbox, wide, high int, args ...string) *terminal {
	p.t.Helper()
	x := &terminal{p, filepath.Join(p.dir, "tmux")}
	p.t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	line := append([]string{"env"}, p.env...)
	line = append(line, "TERM=xterm-256color", bin+"/elastic")
	x.tmux(append([]string{"-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(wide), "-y",
		strconv.Itoa(high)}, append(line, args...)...)...)
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.p.t.Fatalf("tmux %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (x *terminal) keys(keys ...string) { x.tmux(append([]string{"send-keys"}, keys...)...) }

func (x *terminal) screen() string {
	x.p.t.Helper()
	return x.tmux("capture-pane", "-p")
}

// shows waits until the terminal shows all texts.
func (x *terminal) shows(texts ...string) string {
	x.p.t.Helper()
	screen := ""
	until(x.p.t, fmt.Sprintf("the terminal shows %q", texts), func() error {
		screen = x.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return fmt.Errorf("%q is not in:\n%s", text, screen)
			}
		}
		return nil
	})
	return screen
}

// `elastic top` lists jobs, shows one at length, follows a kill, fits a narrow terminal, and stops a
// job only after its name was typed.
func TestTop(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	one, two := trained(p, "lab1"), trained(p, "lab2")
	p.running("llm", 1, 2)
	x := newTerminal(p, 120, 36, "top")
	x.shows("1 job, 1 training", "llm", "running", "2/4", "enter job")
	x.keys("Enter")
	x.shows("timeline", "nodes", "lab1", "lab2", "checkpoints", "where the time went", "next: elastic logs -f llm")
	p.kill(two)
	x.shows("lab2 was lost", "waiting")
	two = trained(p, "lab2")
	x.shows("world size 2", "running")
	x.keys("l")
	x.shows("lines of the workers", "[rank 0]")
	x.tmux("resize-window", "-x", "44", "-y", "16")
	for line := range strings.Lines(x.shows("1 all", "llm")) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 44 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	x.tmux("resize-window", "-x", "120", "-y", "36")
	x.keys("s")
	x.shows("stop job llm? type its name:")
	x.keys("n", "o", "Enter")
	x.shows("not stopped")
	p.running("llm", 2, 2)
	x.keys("s", "l", "l", "m", "Enter")
	x.shows("stopped")
	p.ends(one, 93) // stopped by the operator
	p.ends(two, 93)
	x.keys("q")
	until(t, "the terminal is closed", func() error {
		if out, err := exec.Command("tmux", "-S", x.socket, "ls").CombinedOutput(); err == nil {
			return fmt.Errorf("there is %s", out)
		}
		return nil
	})
}
