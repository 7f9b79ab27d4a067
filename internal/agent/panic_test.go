package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

const panicking = "ELASTIC_TEST_PANIC"

type mutePeers struct{ Peers }

func (mutePeers) Signals() <-chan membership.Signal { return nil }

func (mutePeers) Confirm(context.Context, membership.Ref) (none membership.Answer) { return none }

type muteSaves struct{ Saves }

func (muteSaves) Behind() <-chan struct{} { return nil }
func (muteSaves) Gone() <-chan error      { return nil }

// A panic of the loop ends the process at once, with its stack, even while effects run that only
// the loop would end. The guardian ends the workers when the process is gone.
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv(panicking) != "" {
		l := newLoop(Config{}, Deps{Peers: mutePeers{}, Saves: muteSaves{}})
		l.effects.Go(func() { select {} })
		l.Pace.Gate = func() { panic("planted in the loop") }
		l.run(context.Background(), make(chan os.Signal))
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
	cmd.Env = append(os.Environ(), panicking+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("it ended with %v, want exit status 2\n%s", err, &said)
	}
	for _, want := range []string{"planted in the loop", "(*loop).runLoop"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it did not say %q\n%s", want, &said)
		}
	}
}
