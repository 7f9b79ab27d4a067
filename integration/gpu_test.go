package integration

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What `make gpu` runs on a machine with GPUs runs here on processors: the first row of the part about
// checkpoints, and that of the part about changes.
func TestGPUProgramsRunDry(t *testing.T) {
	t.Parallel()
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3"), "-B",
		"../bench/gpu/run.py", "--dry", "--quick", "--parts=ac", "--bin="+bin)
	cmd.Env = append(os.Environ(), "HELPER="+helper)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"(a) three ranks: kill, join, crash, freeze [dry: CPU and gloo, no GPU]",
		"checked: in place: parameters equal on 2 ranks, and with the undisturbed run to 1e-9",
		"checked: 64 MiB: the newest save has all bytes and two copies",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("%q is not said:\n%s", line, out)
		}
	}
}

// A part that takes too long is ended with all its processes, and what it has is printed.
func TestGPUPartHasALimit(t *testing.T) {
	t.Parallel()
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3"), "-B",
		"../bench/gpu/run.py", "--dry", "--parts=a", "--limit=4", "--bin="+bin)
	cmd.Env = append(os.Environ(), "HELPER="+helper, "GPU_TMP="+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{"way  what  next step after  steps made again\n", "\n  stopped after 4 s\n"} {
		if !strings.Contains(string(out), line) {
			t.Errorf("%q is not said:\n%s", line, out)
		}
	}
	until(t, "no process is left", func() error { return lives(dir) })
}

// lives returns an error while a process works in a directory.
func lives(dir string) error {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return err
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, dir) {
			return fmt.Errorf("%s is %s", link, at)
		}
	}
	return nil
}
