package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A debugger works where the only worker has the terminal.
func TestDebuggerOnATerminal(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	if err := os.WriteFile(p.path("train.py"), []byte("answer = 6 * 7\nbreakpoint()\nprint('went on')\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	x := p.start("sh", "-c", `printf 'p answer\nc\n' | script -qec 'elastic run --tty train.py' typescript`)
	p.ends(x, 0)
	for _, want := range []string{"(Pdb)", "42", "went on"} {
		if screen := content(p.path("typescript")); !strings.Contains(screen, want) {
			t.Errorf("%q is not on the screen:\n%s", want, screen)
		}
	}
}

// A signal that a flag names makes the node save and leave, like SIGTERM.
func TestSignalsToHandle(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--node=a", "--signals-to-handle=SIGTERM,SIGUSR1", "sh", "-c", sit)
	p.running("x", 1, 1)
	pidIn(t, p.path("worker.a"))
	if err := x.kill(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	p.ends(x, 75)
}

// Each worker sees its own card as local rank 0, and lines with a word are copied.
func TestVirtualLocalRankAndFilters(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.gpus(4)
	p.trainers("train.py")
	p.ends(p.run("--gpus=2,3", "--virtual-local-rank",
		"--duplicate-stdout-filters=PADDLE_TRAINER_ID,WORLD", "train.py"), 0)
	for card := range 2 {
		p.holds(fmt.Sprintf("worker %d", card), p.given("log", fmt.Sprintf("workerlog.%d", card)),
			map[string]string{
				"LOCAL_RANK": "0", "RANK": fmt.Sprint(card), "CUDA_VISIBLE_DEVICES": fmt.Sprint(2 + card),
				"FLAGS_selected_gpus": "0"})
	}
	copied := content(p.path("log", "filtered_stdout.log"))
	if strings.Count(copied, "\n") != 2 || !strings.Contains(copied, "[default0]:PADDLE_TRAINER_ID=0\n") ||
		!strings.Contains(copied, "[default1]:PADDLE_TRAINER_ID=1\n") {
		t.Errorf("filtered_stdout.log is %q", copied)
	}
}
