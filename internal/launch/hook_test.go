package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func run(t *testing.T, ctx context.Context, command string, limit time.Duration) (string, error) {
	t.Helper()
	dir := t.TempDir()
	h := Hook{Command: command, Limit: limit, Dir: dir, Env: append(os.Environ(), "WHAT=value"),
		Log: filepath.Join(dir, "log")}
	err := RunHook(ctx, h, "generation 3")
	b, rerr := os.ReadFile(h.Log)
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(b), err
}

func TestStatusDecides(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"true":                          "",
		"echo fine; exit 0":             "",
		"exit 3":                        "the pre-hook failed: exit status 3",
		"echo one; echo no disk; false": "the pre-hook failed: exit status 1: no disk",
		"kill -9 $$":                    "the pre-hook failed: signal: killed",
		"no-such-command 2>/dev/null":   "the pre-hook failed: exit status 127",
	} {
		log, err := run(t, t.Context(), command, time.Minute)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
		if !strings.HasPrefix(log, "---- elastic: pre-hook for generation 3, ") {
			t.Errorf("%s: log %q", command, log)
		}
	}
}

func TestOutputAndEnvironment(t *testing.T) {
	t.Parallel()
	log, err := run(t, t.Context(), "echo $WHAT; echo trouble >&2", time.Minute)
	if err != nil || !strings.HasSuffix(log, "----\nvalue\ntrouble\n") {
		t.Errorf("%v\n%s", err, log)
	}
}

// A hook that does not end is ended at its limit, with all that it started.
func TestLimit(t *testing.T) {
	t.Parallel()
	log, err := run(t, t.Context(), "sleep 1000 & echo $!; sleep 1000", 300*time.Millisecond)
	failed, ok := errors.AsType[*HookFailed](err)
	if !ok || failed.How != "no end within 300ms" {
		t.Fatalf("%v", err)
	}
	gone(t, log)
}

// What a hook leaves running is ended with it.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	log, err := run(t, t.Context(), "sleep 1000 & echo $!", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	gone(t, log)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	log, err := run(t, ctx, "sleep 1000 & echo $!; sleep 1000", time.Minute)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	gone(t, log)
}

// gone waits until the process whose number is the last line of a log has ended.
func gone(t *testing.T, log string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	pid := lines[len(lines)-1]
	for range 1000 {
		if exec.Command("kill", "-0", pid).Run() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %s goes on", pid)
}
