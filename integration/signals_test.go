package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// touch makes a file, for a worker that looks for it.
func (p *sandbox) touch(name string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// stubborn is a worker that ignores SIGTERM.
const stubborn = `trap '' TERM; echo $$ >worker.$ELASTIC_NODE; while :; do sleep 0.1; done`

// Under nohup the end of the terminal ends neither the agent nor its workers.
func TestNohup(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	line := append([]string{"-c", `trap '' HUP; exec "$@"`, "sh", filepath.Join(bin, "elastic"), "run"},
		p.server()...)
	x := p.start("/bin/sh", append(line, "--job-id=x", "--node=a", "sh", "-c", sit)...)
	p.running("x", 1, 1)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if err := x.kill(s); err != nil {
			t.Fatal(err)
		}
	}
	p.ends(x, 130) // by the interrupt
	y := p.start("/bin/sh", append(line, "--job-id=y", "--node=a", "sh", "-c", "kill -HUP $$; exit 3")...)
	p.ends(y, 3)
}

func TestSignals(t *testing.T) {
	t.Parallel()
	const (
		hup, intr, quit, kill, term = syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL,
			syscall.SIGTERM
	)
	for name, c := range map[string]struct {
		program string
		signals []syscall.Signal
		status  int
		says    []string
		state   string // of the job, afterwards
	}{
		"interrupt": {sit, []syscall.Signal{intr}, 130,
			[]string{"elastic: leaving; the job goes on or waits. Come back with the same line; end it " +
				"with: elastic stop x\n"}, "waiting"},
		"interrupt twice": {stubborn, []syscall.Signal{intr, intr}, 130, nil, "waiting"},
		"terminate":       {sit, []syscall.Signal{term}, 75, nil, "waiting"},
		"terminate twice": {stubborn, []syscall.Signal{term, term}, 143, nil, "waiting"},
		"hang up":         {sit, []syscall.Signal{hup}, 75, nil, "waiting"},
		"quit": {stubborn, []syscall.Signal{quit}, 131, []string{"goroutine ", "internal/agent"},
			"waiting"},
		"kill":               {stubborn, []syscall.Signal{kill}, 137, nil, "waiting"},
		"interrupt and back": {sit, []syscall.Signal{intr}, 130, nil, "waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			x := p.run("--job-id=x", "--node=a", "--grace=1h", "sh", "-c", c.program)
			p.running("x", 1, 1)
			worker := pidIn(t, p.path("worker.a"))
			for i, s := range c.signals {
				if i > 0 { // after the first signal the worker still runs
					p.reaches("x", "asked to save", func(st status) error {
						if st.State == "running" {
							return fmt.Errorf("not yet")
						}
						return nil
					})
					if _, gone := x.ended(); gone || !alive(worker) {
						t.Fatal("one signal was enough for a worker that does not end")
					}
				}
				if err := x.kill(s); err != nil {
					t.Fatal(err)
				}
			}
			p.ends(x, c.status)
			until(t, "the worker is gone", func() error {
				if alive(worker) {
					return fmt.Errorf("%d lives", worker)
				}
				return nil
			})
			for _, text := range c.says {
				if !strings.Contains(x.stderr(), text) {
					t.Errorf("it did not say %q:\n%s", text, tail(x.stderr()))
				}
			}
			p.state("x", c.state)
			back := p.run("--job-id=x", "--node=a", "sh", "-c", sit)
			p.running("x", 2, 1)
			p.must("stop", "x")
			p.ends(back, 93)
		})
	}
}

func TestStopEndsEveryNode(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	var nodes []*proc
	for _, n := range []string{"a", "b", "spare"} {
		nodes = append(nodes, p.run("--np=2", "--job-id=x", "--node="+n, "sh", "-c", sit))
		if n == "b" {
			p.running("x", 1, 2)
		}
	}
	p.says(nodes[2], "standing by as a spare")
	if got, want := p.must("stop", "x"), "job x stopped: did not save: there is no checkpoint\n"; got != want {
		t.Errorf("stop said %q, want %q", got, want)
	}
	for _, x := range nodes {
		p.ends(x, 93)
		p.says(x, "job x stopped")
	}
	st := p.state("x", "stopped")
	if st.Exit == nil || st.Exit.Code != 93 || st.Exit.Source != "operator" {
		t.Errorf("exit: %+v", st.Exit)
	}
	if stopped := kinds(p.events("x"), "job_stopped"); len(stopped) != 1 || stopped[0].Exit == nil {
		t.Errorf("events: %+v", stopped)
	}
}

// A stop that requires a save is refused if the workers did not save. The job goes on, and every output
// names what was lost, also of a scale.
func TestStopThatRequiresASave(t *testing.T) {
	t.Parallel()
	const lost = "did not save: there is no checkpoint"
	p := newSandbox(t)
	a := p.run("--np=1:2", "--job-id=x", "--node=a", "--last-call=100ms", "sh", "-c", sit)
	p.running("x", 1, 1)
	if r := p.command("stop", "x", "--require-save"); r.status != 1 ||
		!strings.Contains(r.stderr, "error: job x goes on: its workers "+lost+" [E-NOT-SAVED]") {
		t.Errorf("stop: status %d, %s", r.status, r.stderr)
	}
	p.says(a, "wait: the stop is refused: "+lost)
	p.running("x", 2, 1)
	b := p.run("--np=1:2", "--job-id=x", "--node=b", "sh", "-c", sit)
	p.running("x", 3, 2)
	p.says(a, "the workers "+lost)
	if out := p.must("scale", "x", "1"); !strings.Contains(out, "generation 4 running; "+lost) {
		t.Errorf("scale says %q", out)
	}
	if out := p.must("goodput", "x"); strings.Count(out, lost) != 3 {
		t.Errorf("goodput says %s", out)
	}
	p.must("stop", "x")
	p.ends(a, 93)
	p.ends(b, 93)
}

// A job with a generated name stops with its node, because no user could resume it by name.
func TestMadeUpJobStopsWithItsNode(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("sh", "-c", sit)
	var job string
	until(t, "the job has a name", func() error {
		_, rest, ok := strings.Cut(x.stderr(), "elastic: job ")
		job, _, _ = strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(job, "sh-") {
			return fmt.Errorf("it is %q", job)
		}
		return nil
	})
	p.running(job, 1, 1)
	if err := x.kill(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.ends(x, 130)
	p.state(job, "stopped")
}

func TestExitStatusOfWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program    string
		status     int
		state      string
		generation int
		signal     string
	}{
		"a code":                     {"exit 3", 3, "failed", 1, ""},
		"a code that elastic has":    {"exit 75", 75, "failed", 1, ""},
		"a signal":                   {"kill -KILL $$", 137, "failed", 1, "SIGKILL"},
		"another signal":             {"kill -SEGV $$", 139, "failed", 1, "SIGSEGV"},
		"a new generation, please":   {"[ $ELASTIC_GENERATION -lt 3 ] && exit 101; exit 0", 0, "done", 3, ""},
		"the other way to ask so":    {"[ $ELASTIC_GENERATION -lt 2 ] && exit 102; exit 0", 0, "done", 2, ""},
		"through":                    {"exit 0", 0, "done", 1, ""},
		"asks for ever, no progress": {"exit 101", 93, "failed", 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			x := p.run("--job-id=x", "--node=a", "--max-restarts=0", "sh", "-c", c.program)
			p.ends(x, c.status)
			st := p.state("x", c.state)
			if st.Generation != c.generation || st.Restarts.Used != 0 {
				t.Errorf("%s, restarts %+v", st, st.Restarts)
			}
			if st.Exit == nil || st.Exit.Code != c.status {
				t.Fatalf("exit: %+v", st.Exit)
			}
			if got := st.Exit.Signal; c.signal == "" && got != nil ||
				c.signal != "" && (got == nil || *got != c.signal) {
				t.Errorf("signal of %+v, want %q", st.Exit, c.signal)
			}
			for _, e := range kinds(p.events("x"), "world_proposed") {
				if e.Generation > 1 && e.Cause != "asked" {
					t.Errorf("generation %d because of %s", e.Generation, e.Cause)
				}
			}
		})
	}
}

// A signal comes before any worker has run.
func TestExitStatusOfTheAgent(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.touch("notexecutable")
	for _, c := range []struct {
		status int
		code   string
		args   []string
	}{
		{2, "E-NP-RANGE", []string{"--np=0", "--job-id=x", "train"}},
		{2, "E-NP-RANGE", []string{"--np=3:2", "--job-id=x", "train"}},
		{2, "E-JOB-ID", []string{"--np=2", "train"}},
		{2, "E-NAME", []string{"--job-id=-x-/", "train"}},
		{2, "E-USAGE", []string{"--job-id=x", "--no-such-flag", "train"}},
		{2, "E-USAGE", []string{"--job-id=x"}},
		{126, "E-PROGRAM-MODE", []string{"--job-id=x", "./notexecutable"}},
		{127, "E-PROGRAM", []string{"--job-id=x", "./nothing"}},
		{127, "E-PROGRAM", []string{"--job-id=x", "nothing-of-that-name"}},
		{125, "E-STATE-DIR", []string{"--job-id=x", "--state-dir=/proc/nowhere", "train"}},
		{125, "E-CKPT-DIR", []string{"--job-id=x", "--checkpoint-dir=/proc/nowhere", "train"}},
		{125, "E-CKPT-DIR", []string{"--job-id=x", "--checkpoint-dir=notexecutable", "train"}},
		{125, "E-LOG-DIR", []string{"--job-id=x", "--log-dir=/proc/nowhere", "train"}},
		{124, "E-TIMEOUT", []string{"--np=2", "--job-id=alone", "--wait-timeout=1s", "train"}},
		{124, "E-SERVER", []string{"--job-id=x", "--server=127.0.0.1:1", "--connect-timeout=1s", "train"}},
		{125, "E-ADDRESS", []string{"--job-id=x", "--host=192.0.2.1", "train"}},
	} {
		p.refused(c.status, c.code, append([]string{"run"}, c.args...)...)
	}
}
