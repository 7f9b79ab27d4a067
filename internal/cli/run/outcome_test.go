package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Kubernetes shows 4096 bytes: the sentence, and the end of the traceback.
func TestTerminationMessage(t *testing.T) {
	failure := &rendezvous.Failure{Node: "a", Code: 1, Message: "ValueError: no",
		Detail: "Traceback (most recent call last):\n" +
			strings.Repeat("  File \"train.py\", line 7, in step\n", 400) + "ValueError: no"}
	outcome := rendezvous.Outcome{Code: 1, Source: "worker", Message: "restarts used (3 of 3)",
		Failure: failure}
	world := &rendezvous.World{Phase: rendezvous.Failed, Outcome: &outcome}
	got := endText(world, "x")
	const first, last = "job x failed: restarts used (3 of 3); exit code 1\nrank 0 on a ended with exit " +
		"code 1: ValueError: no\n",
		"in step\nValueError: no\n"
	if !strings.HasPrefix(got, first) || !strings.HasSuffix(got, last) {
		t.Errorf("%q … %q", got[:80], got[len(got)-80:])
	}
	if len(got) > longestMessage || len(got) < longestMessage-100 {
		t.Errorf("%d bytes", len(got))
	}
	outcome.Failure, world.Phase, outcome.Message = nil, rendezvous.Stopped, "ada asked for it"
	if got := endText(world, "x"); got != "job x stopped: ada asked for it\n" {
		t.Errorf("%q", got)
	}
}

// A state directory that cannot be used as it is, is named as such, also where it has no hard links.
func TestOutcomeOfAStateDirectory(t *testing.T) {
	o := &node.Options{StateDir: "/state", LogDir: "/log"}
	for name, x := range map[string]struct {
		err  error
		code problem.Code
		cure string
	}{
		"no hard links": {&os.LinkError{Op: "link", New: "/state/host", Err: syscall.EPERM},
			problem.StateDir, "hard links"},
		"full":           {&fs.PathError{Op: "write", Path: "/state/x", Err: syscall.ENOSPC}, problem.StateDir, ""},
		"the logs":       {&os.LinkError{Op: "rename", New: "/log/x", Err: syscall.EIO}, problem.LogDir, ""},
		"something else": {errors.New("no"), problem.Failed, ""},
		"somewhere else": {&fs.PathError{Op: "open", Path: "/etc/x", Err: syscall.EPERM}, problem.Failed, ""},
	} {
		err := part{o: o}.outcome(t.Context(), message.Result{Status: 125, Err: fmt.Errorf("begin: %w", x.err)})
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || e.Code != x.code || e.Status != 125 || !strings.Contains(e.Fix, x.cure) {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// What an earlier container said goes; a file that is not there is not made.
func TestLeaveMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	leaveMessage(path, "text")
	if _, err := os.Stat(path); err == nil {
		t.Fatal("it was made")
	}
	if err := os.WriteFile(path, []byte("an earlier, longer one"), 0o600); err != nil {
		t.Fatal(err)
	}
	leaveMessage(path, "")
	leaveMessage(path, "text")
	if got, err := os.ReadFile(path); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}
