package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// The test binary is also the guardian, and the agent that tests kill.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__guardian":
			os.Exit(Guard())
		case "__agent":
			os.Exit(agentMain(os.Args[2:]))
		case "__warmed":
			os.Exit(warmedMain())
		}
	}
	goleak.VerifyTestMain(m)
}

// guardianArgv runs this binary as a guardian. With the race detector it would
// sleep for a second at its end.
func guardianArgv() []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", exe, "__guardian"}
}

// both runs a test with a cgroup, where one can be had, and without.
func both(t *testing.T, test func(t *testing.T, noCgroup bool)) {
	for _, noCgroup := range []bool{true, false} {
		t.Run(fmt.Sprintf("cgroup=%v", !noCgroup), func(t *testing.T) {
			t.Parallel()
			test(t, noCgroup)
		})
	}
}

// shell is a group of n workers that run a script; $i is the local rank.
func shell(t *testing.T, n int, script string) Spec {
	t.Helper()
	dir := t.TempDir()
	s := Spec{
		Mark: proc.MarkOf(dir), Job: "j", Node: "a", Generation: 2, WorldSize: n,
		Argv: []string{"/bin/sh", "-c", script}, Dir: dir,
		RunDir:   filepath.Join(dir, "run", "2"),
		Guardian: guardianArgv(),
	}
	for i := range n {
		s.Ranks = append(s.Ranks, i)
		s.Env = append(s.Env, append(os.Environ(), "i="+strconv.Itoa(i), "drain="+s.DrainFile()))
	}
	s.Logs = openLogs(t, output.Options{Dir: filepath.Join(dir, "log")})
	return s
}

func openLogs(t *testing.T, o output.Options) *output.Logs {
	t.Helper()
	logs, err := output.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close(context.Background()) })
	return logs
}

// begin starts a group, and ends it after the test.
func begin(t *testing.T, s Spec) *Group {
	t.Helper()
	g, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(deadline(t), 0); err != nil {
			t.Error(err)
		}
	})
	return g
}

// deadline is long: tests fail by it, never by being slow.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls what cannot be watched.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := deadline(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// said waits until the log of a worker contains text.
func said(t *testing.T, logs *output.Logs, localRank int, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("worker %d says %q", localRank, text), func() bool {
		b, _ := os.ReadFile(logs.Path(localRank))
		return strings.Contains(string(b), text)
	})
}

func exitsOf(t *testing.T, g *Group) map[int]Exit {
	t.Helper()
	exits := make(map[int]Exit)
	for range g.spec.Env {
		select {
		case e := <-g.Exits():
			exits[e.LocalRank] = e
		case <-deadline(t).Done():
			t.Fatal("a worker never ended")
		}
	}
	return exits
}

// allBelow lists what descends from pid, itself included.
func allBelow(t *testing.T, pid int) []proc.Process {
	t.Helper()
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	return proc.Below(all, func(p proc.Process) bool { return p.PID == pid })
}

// members waits until there are n processes below pid, itself included, and
// returns them.
func members(t *testing.T, pid, n int) []proc.Process {
	t.Helper()
	var all []proc.Process
	eventually(t, fmt.Sprintf("%d processes run", n), func() bool {
		all = allBelow(t, pid)
		return len(all) == n
	})
	return all
}

func nothingLeft(t *testing.T, m proc.Mark) {
	t.Helper()
	c, err := proc.Look(
		func(_ proc.Process, value string) bool { return strings.HasPrefix(value, string(m)) })
	if err == nil {
		err = c.Left(proc.HangLimit + 1)
	}
	if err != nil {
		t.Error(err)
	}
}

func disappear(t *testing.T, all []proc.Process) {
	t.Helper()
	for _, p := range all {
		eventually(t, fmt.Sprintf("process %d is gone", p.PID), func() bool {
			now, ok := proc.Find(p.PID)
			return !ok || now.Start != p.Start || now.Gone()
		})
	}
}

// gate makes a pipe on which a script waits with `read x < NAME`, once: a
// second reader might meet the first writer.
func gate(t *testing.T, s Spec, name string) (open func()) {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// patient is a worker that does something on SIGTERM. Its helper may miss the
// signal between fork and exec, where it still has the shell's handler.
func patient(onTerm string) string {
	return "trap 'kill -9 $helper 2>/dev/null; " + onTerm + "' TERM; sleep 1000 & helper=$!; echo up; wait"
}

// family is a worker with descendants of every kind: a child, one in another
// session, a daemon forked twice, one without our environment.
const family = `
sleep 1000 &
setsid sleep 1001 &
(setsid sh -c 'sleep 1002 & exec sleep 1003' >/dev/null 2>&1 &)
env -i sleep 1004 &
setsid env -i sleep 1005 &
wait`

const familySize = 7

// body is a log without our own lines.
func body(log string) string {
	var b bytes.Buffer
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "---- elastic: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func signalPID(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d", pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
