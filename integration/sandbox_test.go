package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// sandbox is one user on one machine, with its own runtime, state and working
// directory. All its processes end with the test. A process that outlives the
// agent that started it is an error.
type sandbox struct {
	t   testing.TB
	dir string
	bin string // of its programs
	env []string
	all []*proc
	at  string // --server, "" for the local server
}

func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	p := &sandbox{t: t, dir: dir, bin: bin}
	for _, d := range []string{"run", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
		"XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"ELASTICD_IDLE=1m"}
	t.Cleanup(p.clear)
	return p
}

// set adds to the environment of all processes that are started later.
func (p *sandbox) set(kv ...string) { p.env = append(p.env, kv...) }

// path returns the path of a file in the working directory.
func (p *sandbox) path(name ...string) string {
	return filepath.Join(append([]string{p.dir, "work"}, name...)...)
}

func (p *sandbox) read(name ...string) string {
	p.t.Helper()
	b, err := os.ReadFile(p.path(name...))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// clear ends all processes. If the test failed, it logs what happened.
func (p *sandbox) clear() {
	if p.t.Failed() {
		p.logStory()
	}
	for _, x := range p.all {
		if x.kill(syscall.SIGKILL) == nil {
			<-x.done
		}
	}
	// The processes that an agent started must end with it.
	limit := time.Now().Add(10 * time.Second)
	for {
		left := p.left()
		if len(left) == 0 {
			break
		}
		if time.Now().After(limit) {
			for _, l := range left {
				p.t.Errorf("outlived its agent: %s", l)
				l.signal(syscall.SIGKILL)
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, s := range p.servers() {
		s.signal(syscall.SIGKILL)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.t.Error(err)
	}
}

// logStory logs the output of the processes, the events and the last status.
func (p *sandbox) logStory() {
	for _, x := range p.all {
		p.t.Logf("== %s\n-- stderr\n%s-- stdout\n%s", x, tail(x.stderr()), tail(x.stdout()))
	}
	jobs, err := p.try("jobs", "-o", "json")
	if err != nil {
		p.t.Logf("== jobs: %v", err)
		return
	}
	var names []struct{ Job string }
	if err := json.Unmarshal([]byte(jobs), &names); err != nil {
		p.t.Logf("== jobs: %v", err)
	}
	for _, j := range names {
		events, err := p.try("events", j.Job)
		p.t.Logf("== events of %s (%v)\n%s", j.Job, err, tail(events))
	}
}

func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// proc is a process that this test started.
type proc struct {
	cmd      *exec.Cmd
	out, err string // files
	done     chan struct{}
}

func (x *proc) String() string { return strings.Join(x.cmd.Args, " ") }

// start starts a program of any kind.
func (p *sandbox) start(name string, args ...string) *proc {
	p.t.Helper()
	x := &proc{cmd: exec.Command(name, args...), done: make(chan struct{})}
	x.cmd.Dir, x.cmd.Env = p.path(), p.env
	for file, to := range map[string]*io.Writer{"out": &x.cmd.Stdout, "err": &x.cmd.Stderr} {
		f, err := os.Create(filepath.Join(p.dir, fmt.Sprintf("%d.%s", len(p.all), file)))
		if err != nil {
			p.t.Fatal(err)
		}
		defer f.Close()
		*to = f
	}
	x.out, x.err = x.cmd.Stdout.(*os.File).Name(), x.cmd.Stderr.(*os.File).Name()
	if err := x.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.all = append(p.all, x)
	go func() {
		defer close(x.done)
		_ = x.cmd.Wait() // ProcessState says how it ended
	}()
	return x
}

// run is `elastic run` with these arguments, in the background.
func (p *sandbox) run(args ...string) *proc {
	p.t.Helper()
	return p.start(filepath.Join(p.bin, "elastic"), append(append([]string{"run"}, p.server()...), args...)...)
}

func (p *sandbox) server() []string {
	if p.at == "" {
		return nil
	}
	return []string{"--server=" + p.at}
}

func (x *proc) stdout() string { return content(x.out) }
func (x *proc) stderr() string { return content(x.err) }

func content(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// kill sends a signal. An error says that the process has ended.
func (x *proc) kill(s syscall.Signal) error { return x.cmd.Process.Signal(s) }

// kill ends agents by SIGKILL. The processes that they started end, too.
func (p *sandbox) kill(all ...*proc) {
	p.t.Helper()
	for _, x := range all {
		if err := x.kill(syscall.SIGKILL); err != nil {
			p.t.Fatal(err)
		}
	}
}

// ended reports whether the process has ended, and its status: 128+N for a signal.
func (x *proc) ended() (int, bool) {
	select {
	case <-x.done:
	default:
		return 0, false
	}
	w := x.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if w.Signaled() {
		return 128 + int(w.Signal()), true
	}
	return w.ExitStatus(), true
}

// ends waits until the process ends, and checks its exit status.
func (p *sandbox) ends(x *proc, want int) {
	p.t.Helper()
	until(p.t, x.String()+" ends", func() error {
		if _, ok := x.ended(); !ok {
			return fmt.Errorf("it runs; it said last: %s", lastLine(x.stderr()))
		}
		return nil
	})
	if got, _ := x.ended(); got != want {
		p.t.Errorf("%s ended with %d, want %d\n%s", x, got, want, tail(x.stderr()))
	}
}

// says waits for a text on stderr.
func (p *sandbox) says(x *proc, text string) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%s says %q", x, text), func() error {
		if said := x.stderr(); !strings.Contains(said, text) {
			return fmt.Errorf("it said last: %s", lastLine(said))
		}
		return nil
	})
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// result is the result of a command.
type result struct {
	status         int
	stdout, stderr string
}

// command runs `elastic …` to its end.
func (p *sandbox) command(args ...string) result {
	p.t.Helper()
	// After the command's name, which may be followed by positionals.
	line := slices.Insert(slices.Clone(args), 1, p.server()...)
	// also after the test, to log its story
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "elastic"), line...)
	cmd.Dir, cmd.Env = p.path(), p.env
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.t.Fatalf("elastic %s: %v", strings.Join(args, " "), err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), words.String()}
}

// try runs a command and returns its stdout.
func (p *sandbox) try(args ...string) (string, error) {
	r := p.command(args...)
	if r.status != 0 {
		return r.stdout, fmt.Errorf("elastic %s ended with %d: %s",
			strings.Join(args, " "), r.status, strings.TrimSpace(r.stderr))
	}
	return r.stdout, nil
}

// must runs a command that must succeed.
func (p *sandbox) must(args ...string) string {
	p.t.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// refused runs a command that must fail with this status and code.
func (p *sandbox) refused(status int, code string, args ...string) {
	p.t.Helper()
	r := p.command(args...)
	var line string
	for l := range strings.Lines(r.stderr) {
		if line = strings.TrimSpace(l); !strings.HasPrefix(line, "elastic: ") {
			break
		}
	}
	if r.status != status || !strings.HasSuffix(line, " ["+code+"]") {
		p.t.Errorf("elastic %s: status %d, %q; want %d, …[%s]",
			strings.Join(args, " "), r.status, line, status, code)
	}
}

// until polls for a state outside this process. If it does not come in time, the
// test fails with the last reason.
func until(t testing.TB, what string, f func() error) {
	t.Helper()
	within(t, limit, what, f)
}

func within(t testing.TB, limit time.Duration, what string, f func() error) {
	t.Helper()
	outside.Poll{What: what, Every: 20 * time.Millisecond, Limit: limit}.Until(t, f)
}

// endures checks for d that f returns no error.
func endures(t testing.TB, d time.Duration, what string, f func() error) {
	t.Helper()
	outside.Poll{What: what, Every: 100 * time.Millisecond, Limit: d}.Holds(t, f)
}
