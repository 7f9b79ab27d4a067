package hang

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
)

// python starts a script that says "up" when it stands still, with a run directory of its own and
// the variables of a worker.
func python(t *testing.T, script string, switches ...string) (pid int, dir string) {
	t.Helper()
	dir = t.TempDir()
	helper, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/python3", append(switches, "-c", script)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+helper, "PYTHONDONTWRITEBYTECODE=1", "DIR="+dir)
	cmd.Env = Tell(cmd.Env, dir, filepath.Join(helper, "watch"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it and its children stand still until then
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%q %v %s", line, err, rest)
	}
	return cmd.Process.Pid, dir
}

// inspected is what Inspect finds within a few tries: its limit is short, and the machine may be
// busy.
func inspected(t *testing.T, pid int, dir string, enough func(Evidence) bool) Evidence {
	t.Helper()
	var e Evidence
	for range 20 {
		if e = Inspect(t.Context(), pid, dir); enough(e) {
			break
		}
	}
	return e
}

// A Python worker answers with the stacks of all threads, and goes on.
func TestAWorkerAnswers(t *testing.T) {
	t.Parallel()
	pid, dir := python(t, `
import os, threading
pid = os.fork()
def stand_still(): threading.Event().wait()
if pid == 0: stand_still()
print("up", flush=True)
stand_still()`)
	// The process prints "up" before it stands still.
	e := inspected(t, pid, dir, func(e Evidence) bool { return strings.Contains(e.Stack, "in stand_still") })
	if !strings.Contains(e.Stack, "in stand_still") || e.State == "" ||
		!strings.Contains(e.Threads, "python3 ") {
		t.Errorf("%+v", e)
	}
	again := inspected(t, pid, dir, func(e Evidence) bool { return e.Stack != "" })
	if !strings.Contains(again.Stack, "in stand_still") {
		t.Errorf("a second time: %+v", again)
	}
}

// A worker whose interpreter stands still in a library writes its stacks at a signal.
func TestAnInterpreterThatStandsStill(t *testing.T) {
	t.Parallel()
	pid, dir := python(t, `
import re, threading
def stand_still(): re.match("(a+)+$", "a" * 64 + "b")
print("up", flush=True)
stand_still()`)
	held := inspected(t, pid, dir, func(e Evidence) bool { return e.Stack == "" })
	if held.Stack != "" || held.Busy == 0 {
		t.Errorf("%+v", held)
	}
	send := func(s syscall.Signal) bool { return syscall.Kill(pid, s) == nil }
	for range 2 {
		if got := Stuck(t.Context(), dir, send); strings.Count(got, "in stand_still") != 1 {
			t.Errorf("%q", got)
		}
	}
}

// The flight recorder of torch is taken as it is, and its newest collective beside it.
func TestFlightRecorderAnswers(t *testing.T) {
	t.Parallel()
	pid, dir := python(t, `
import pickle, sys, time, types
entry = {"is_p2p": False, "process_group": ("0", "default_pg"), "collective_seq_id": 3, "profiling_name": "gloo:barrier"}
sys.modules["torch._C._distributed_c10d"] = types.SimpleNamespace(
    _dump_fr_trace=lambda includeStackTraces: pickle.dumps({"entries": [entry]}, protocol=2))
print("up", flush=True)
time.sleep(1000)`)
	e := inspected(t, pid, dir, func(e Evidence) bool { return e.Collective != nil })
	if e.Collective == nil || *e.Collective != (diagnosis.Collective{Seq: 3, Name: "gloo:barrier"}) ||
		!strings.HasPrefix(string(e.Flight), "\x80\x02}") {
		t.Errorf("%+v", e)
	}
}

// A worker that is stopped, or knows nothing of us, is not waited for, and files that are no
// answers are not read.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	pid, dir := python(t, `print("up", flush=True); import time; time.sleep(1000)`, "-I")
	if err := os.WriteFile(filepath.Join(dir, "progress.jsonl"), []byte("{\"step\":1}\n{\"step\":2}\n{\"st"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if e := Inspect(t.Context(), pid, dir); e.Stack != "" || e.Flight != nil || e.Progress != `{"step":2}` {
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"evidence.ask", "evidence.stacks", "evidence.flight", "evidence.collective"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if e := Inspect(t.Context(), pid, dir); e.Stack != "" || e.Flight != nil {
		t.Errorf("%+v", e)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if e := Inspect(t.Context(), pid, dir); e.State != "T" && time.Since(began) > answerLimit {
		t.Errorf("%+v", e)
	}
}

func TestBundleIsBounded(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	for g := range uint64(mostBundles + 3) {
		b := Bundle{Summary: "summary\n", NodeOf: func(int) string { return "a" },
			All: []Evidence{{Rank: 1, Stack: "one", Flight: []byte("\x80")},
				{Rank: 0, Stack: "nought"}}}
		if _, err := b.Write(logs, g+1); err != nil {
			t.Fatal(err)
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(logs, "hang-*"))
	if len(dirs) != mostBundles {
		t.Errorf("%v", dirs)
	}
	files, _ := filepath.Glob(filepath.Join(logs, "hang-8", "*"))
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	if got := strings.Join(names, " "); got != "flight-1 rank-0.txt rank-1.txt summary.txt" {
		t.Error(got)
	}
	large := Evidence{Stack: strings.Repeat("x", 1<<20), Threads: strings.Repeat("x", 1<<20),
		Kernel: strings.Repeat("x", 1<<20), Flight: make([]byte, 1<<20)}
	large.Fit(1000)
	if n := len(large.Stack) + len(large.Threads) + len(large.Kernel) + len(large.Flight); n > 1000 {
		t.Errorf("%d bytes", n)
	}
	if Room(100_000) > bundleBytes/100_000 || Room(1) > mostOfRank {
		t.Error("room")
	}
}

func TestWhatTheUserSetStays(t *testing.T) {
	t.Parallel()
	env := Tell([]string{"A=1", "PYTHONPATH=/mine"}, "/run/3/0", "/watch")
	for name, want := range map[string]string{"PYTHONFAULTHANDLER": "1",
		"ELASTIC_EVIDENCE": "/run/3/0/evidence", "TORCH_FR_BUFFER_SIZE": "1000",
		"PYTHONPATH": "/watch:/mine"} {
		if !slices.Contains(env, name+"="+want) {
			t.Errorf("%s: %q", name, env)
		}
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "TORCH_NCCL_TRACE") }) {
		t.Errorf("newer versions of torch warn of this: %q", env)
	}
	env = Tell([]string{"PYTHONFAULTHANDLER=", "TORCH_NCCL_TRACE_BUFFER_SIZE=7"}, "/run/3/1", "/watch")
	if slices.Contains(env, "PYTHONFAULTHANDLER=1") || slices.Contains(env, "TORCH_FR_BUFFER_SIZE=1000") ||
		!slices.Contains(env, "ELASTIC_EVIDENCE=/run/3/1/evidence") ||
		!slices.Contains(env, "PYTHONPATH=/watch") {
		t.Errorf("%q", env)
	}
}
