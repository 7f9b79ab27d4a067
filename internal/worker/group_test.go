package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

func TestExitsAreDecoded(t *testing.T) {
	t.Parallel()
	s := shell(t, 4, `case $i in
0) echo fine;;
1) echo trouble >&2; exit 3;;
2) kill -9 $$;;
3) kill -SEGV $$;;
esac`)
	s.Ranks = []int{10, 11, 12, 13}
	g := begin(t, s)
	exits := exitsOf(t, g)
	<-g.Done() // by itself: nothing is left
	for i, want := range []Exit{
		{Code: 0, Tail: []byte("fine\n")}, {Code: 3, Tail: []byte("trouble\n")},
		{Code: 137, Signal: "SIGKILL"}, {Code: 139, Signal: "SIGSEGV"},
	} {
		got := exits[i]
		if got.Code != want.Code || got.Signal != want.Signal || got.Ours || got.Rank != 10+i ||
			string(got.Tail) != string(want.Tail) {
			t.Errorf("worker %d: %+v, want %+v", i, got, want)
		}
	}
	if _, open := <-g.Exits(); open {
		t.Error("more exits than workers")
	}
}

func TestWorkerSurroundings(t *testing.T) {
	t.Parallel()
	s := shell(t, 2,
		`cat; pwd -P; umask; ls /proc/self/fd | tr '\n' ' '; grep -E 'SigBlk|SigIgn' /proc/self/status
ps -o pgid= -p $$ | tr -d ' '; echo $$; test -d "$(dirname $drain)/$i" && echo dir`)
	s.Dir, _ = filepath.EvalSymlinks(s.Dir)
	old := syscall.Umask(0o027)
	syscall.Umask(old)
	g := begin(t, s)
	exitsOf(t, g)
	lines := strings.Split(body(read(t, s.Logs.Path(1))), "\n")
	if len(lines) < 8 {
		t.Fatalf("%q", lines)
	}
	if lines[0] != s.Dir {
		t.Errorf("directory %q, want %q", lines[0], s.Dir)
	}
	if lines[2] != "0 1 2 3 SigBlk:\t0000000000000000" { // 3 is that of ls itself
		t.Errorf("descriptors and blocked signals: %q", lines[2])
	}
	if own := inherited(t); lines[3] != own {
		t.Errorf("ignored signals: %q, this process: %q", lines[3], own)
	}
	if lines[4] != lines[5] {
		t.Errorf("process group %s of worker %s", lines[4], lines[5])
	}
	if lines[6] != "dir" {
		t.Error("no run directory")
	}
}

// Arguments and environment are bytes: file names in another encoding.
func TestBytesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	const bytes = "caf\xe9 \xff\n\u2028<&>"
	s := shell(t, 1, `printf %s "$0|$name"`)
	s.Argv = append(s.Argv, bytes)
	s.Env[0] = append(s.Env[0], "name="+bytes)
	g := begin(t, s)
	<-g.Done()
	if got, want := body(read(t, s.Logs.Path(0))), bytes+"|"+bytes; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A worker that is killed while the kernel counts one killed for memory was it.
func TestOOMIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events := func(n string) {
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom_kill "+n+"\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	events("2")
	g := &Group{
		spec: Spec{Ranks: []int{0, 1, 2}}, pumps: make([][]*output.Pump, 3), exits: make(chan Exit, 1),
		pending: make(map[int]bool),
		cgroup:  proc.Cgroup(dir), oomKills: 2,
	}
	end := func(e Exit) string {
		g.reportExit(e)
		return (<-g.exits).Note
	}
	if note := end(Exit{LocalRank: 0, Signal: "SIGKILL"}); note != "" {
		t.Error(note)
	}
	events("3")
	if note := end(Exit{LocalRank: 1, Signal: "SIGKILL", Ours: true}); note != "" {
		t.Error(note)
	}
	if note := end(Exit{LocalRank: 1, Signal: "SIGKILL"}); !strings.Contains(note, "out of memory") {
		t.Error(note)
	}
	if note := end(Exit{LocalRank: 2, Signal: "SIGKILL"}); note != "" { // it was the other one
		t.Error(note)
	}
}

// Paths are those of the agent, wherever the guardian is.
func TestRelativePaths(t *testing.T) {
	s := shell(t, 1, `pwd -P; test -d run/2/0 || exit 1; `+patient(`exit 0`))
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	s.Dir, s.RunDir = ".", "run/2"
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Ask(deadline(t), Drain{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("run/2/drain"); err != nil {
		t.Fatal(err)
	}
	if got, want := body(read(t, s.Logs.Path(0))), dir+"\nup\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, "")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(s.Dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		program, dir string
		want         error
	}{
		"missing":             {"/nowhere/train", s.Dir, ErrNotFound},
		"below a file":        {write("file", "", 0o700) + "/train", s.Dir, ErrNotFound},
		"not executable":      {write("plain", "#!/bin/sh\n", 0o600), s.Dir, ErrNotExecutable},
		"a directory":         {s.Dir, s.Dir, ErrNotExecutable},
		"no format":           {write("text", "hello", 0o700), s.Dir, ErrNotExecutable},
		"missing interpreter": {write("script", "#!/nowhere/python\n", 0o700), s.Dir, ErrNotExecutable},
		"relative":            {"./script", s.Dir, ErrNotExecutable},
		"missing directory":   {"/bin/sh", "/nowhere", os.ErrNotExist},
	} {
		s := s
		s.Argv, s.Dir = []string{c.program}, c.dir
		g, err := Start(t.Context(), s)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil {
			g.Stop(deadline(t), 0)
		}
	}
	nothingLeft(t, s.Mark)
}

// A worker that was started beside one that could not be is gone when Start
// has failed.
func TestStartIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, "exec sleep 1000")
	s.Env[1] = append(s.Env[1], "huge="+strings.Repeat("x", 200_000)) // E2BIG
	if _, err := Start(t.Context(), s); !errors.Is(err, syscall.E2BIG) {
		t.Fatal(err)
	}
	nothingLeft(t, s.Mark)
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, "exec sleep 1000")
	s.Guardian = []string{"/bin/sleep", "1000"} // one that never answers
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	go cancel(why)
	if _, err := Start(ctx, s); !errors.Is(err, why) {
		t.Fatal(err)
	}
}

func TestStopTakesEverything(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 2, `trap '' TERM`+family)
		s.NoCgroup = noCgroup
		g := begin(t, s)
		all := members(t, g.guardian.Pid, 1+2*familySize)
		var stops sync.WaitGroup
		for range 5 {
			stops.Go(func() {
				if err := g.Stop(deadline(t), 50*time.Millisecond); err != nil {
					t.Error(err)
				}
				for _, p := range all { // nil means empty, at once
					if now, ok := proc.Find(p.PID); ok && now.Start == p.Start {
						t.Errorf("process %d outlived Stop", p.PID)
					}
				}
			})
		}
		stops.Wait()
		for i, e := range exitsOf(t, g) {
			if !e.Ours || e.Signal != "SIGKILL" || e.Code != 137 || e.Note != "" {
				t.Errorf("worker %d: %+v", i, e)
			}
		}
		if g.cgroup != "" {
			if _, err := os.Stat(string(g.cgroup)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("cgroup is left: %v", err)
			}
		}
		if err := g.Stop(deadline(t), time.Hour); err != nil {
			t.Error(err)
		}
	})
}

func TestStopIsGentleFirst(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `setsid sh -c "trap 'echo left; exit' TERM; echo away; sleep 1000 & wait" &
while ! grep -q away log/workerlog.0; do sleep 0.01; done
`+patient(`until grep -q left log/workerlog.0; do sleep 0.01; done; echo bye; exit 7`))
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Stop(deadline(t), time.Hour); err != nil { // the grace ends with the workers
		t.Fatal(err)
	}
	e := exitsOf(t, g)[0]
	if e.Code != 7 || !e.Ours || !strings.HasSuffix(string(e.Tail), "bye\n") {
		t.Errorf("%+v", e)
	}
}

func TestShortestGraceHolds(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `trap '' TERM; echo up; while :; do sleep 1000; done`)
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Stop(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: stopped without being empty", err)
	}
	if err := g.Stop(deadline(t), 0); err != nil {
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Note != "" { // the guardian did it, not its replacement
		t.Errorf("%+v", e)
	}
}

// What a worker leaves behind by itself is not gone until Stop.
func TestDoneWaitsForGrandchildren(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `setsid sleep 1000 & echo up`)
	g := begin(t, s)
	if e := exitsOf(t, g)[0]; e.Code != 0 || e.Ours {
		t.Fatalf("%+v", e)
	}
	if g.isDone() {
		t.Fatal("done with a process left")
	}
	if err := g.Stop(deadline(t), 0); err != nil {
		t.Fatal(err)
	}
}

func TestFrozenWorkerDies(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 1, `echo up; exec sleep 1000`)
		s.NoCgroup = noCgroup
		g := begin(t, s)
		said(t, s.Logs, 0, "up")
		signalPID(t, g.PIDs()[0], syscall.SIGSTOP)
		if err := g.Stop(deadline(t), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	})
}

// inherited are the signals that this process was started with as ignored: a worker has those, and
// no others.
func inherited(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatal("no SigIgn in /proc/self/status")
	return ""
}
