package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/roles"
)

// The test binary is also the guardian, and a server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__guardian":
			os.Exit(worker.Guard())
		case "__server":
			l, err := net.Listen("tcp", os.Args[2])
			if err != nil {
				os.Exit(9)
			}
			_ = os.WriteFile("server", []byte(strconv.Itoa(os.Getpid())), 0o600) // the test misses it
			for {
				if c, err := l.Accept(); err == nil {
					c.Close()
				}
			}
		}
	}
	goleak.VerifyTestMain(m)
}

// bench is an ensemble of one server and some trainers, in a directory of its own.
type bench struct {
	*Ensemble
	t    *testing.T
	dir  string
	spec worker.Spec
	at   string
	last string // where the last of its servers was found, if that is not where it listens

	mu   sync.Mutex
	said []string
}

// trainerScript notes its starts, fails as often as the file fail has it, and waits for the file
// go.
const trainerScript = `echo $$ >> t$i; n=$(wc -l < t$i); echo "$ELASTIC_RESTARTED" >> given$i
[ -e fail$i ] && [ $n -le $(cat fail$i) ] && exit 7
while [ ! -e go ]; do sleep 0.02; done; exit 0`

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	logs, err := output.Open(output.Options{Dir: filepath.Join(b.dir, "log"), Node: "n", Run: "r",
		Console: os.Stderr, Notice: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.spec = worker.Spec{Mark: proc.MarkOf(b.dir), Job: "x", Node: "n", Generation: 1, Argv: []string{"/bin/sh"},
		Dir: b.dir, RunDir: filepath.Join(b.dir, "run"), Logs: logs, NoCgroup: true,
		Guardian: []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", exe, "__guardian"}}
	b.at = "127.0.0.1:" + b.port()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if b.Ensemble != nil {
			go func() {
				for range b.Exits() { // nothing else reads it any more
				}
			}()
			if err := b.Stop(ctx, 0); err != nil {
				t.Error(err)
			}
		}
		if err := logs.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) port() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// config is a generation with so many trainers here, and the server at its address.
func (b *bench) config(trainers int, servers ...string) Config {
	b.t.Helper()
	if len(servers) == 0 {
		servers = []string{b.at}
	}
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	s := &roles.Spec{Mode: roles.PS, Trainers: make([]string, trainers), Servers: servers}
	ports := make([]string, trainers)
	ports = append(append(ports, servers...), "127.0.0.1:1")
	if b.last != "" {
		ports[trainers+len(servers)-1] = b.last
	}
	team, err := roles.NewTeam(s, roles.Size{Nodes: 1}, ports)
	if err != nil {
		b.t.Fatal(err)
	}
	c := Config{Life: new(scope.Scope), Spec: b.spec, Team: team, Tasks: team.Nodes[0][:trainers+1],
		Restarts: 2, RefillAfter: time.Hour, Through: func([]roles.Task) {},
		Notice: func(s string) { b.mu.Lock(); b.said = append(b.said, s); b.mu.Unlock() }}
	for _, t := range c.Tasks {
		c.Spec.Ranks = append(c.Spec.Ranks, t.Index)
		c.Spec.Env = append(c.Spec.Env, []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("i=%d", t.Index)})
		script := trainerScript
		if serves(t) {
			script = fmt.Sprintf("exec %s __server %s", exe, b.at)
		}
		c.Spec.Args = append(c.Spec.Args, []string{"-c", script})
	}
	return c
}

func (b *bench) start(c Config) {
	b.t.Helper()
	e, err := Start(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Ensemble = e
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) []string {
	text, _ := os.ReadFile(filepath.Join(b.dir, name)) // "" until it is written
	return strings.Fields(string(text))
}

// runs waits until a file has n lines: the starts of a process.
func (b *bench) runs(name string, n int) []string {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		if lines := b.read(name); len(lines) >= n {
			return lines
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s has %v, want %d lines; said: %v", name, b.read(name), n, b.said)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *bench) exit() worker.Exit {
	b.t.Helper()
	select {
	case x, ok := <-b.Exits():
		if !ok {
			b.t.Fatal("no process ends any more")
		}
		return x
	case <-time.After(20 * time.Second):
		b.t.Fatal("no process ends")
	}
	return worker.Exit{}
}

// Trainers start when the server listens. The one that fails is started again alone, and knows it.
func TestATrainerAlone(t *testing.T) {
	b := newBench(t)
	b.write("fail1", "1")
	b.start(b.config(2))
	b.runs("t1", 2)
	first := b.runs("t0", 1)
	b.write("go", "")
	for range 2 {
		if x := b.exit(); x.Code != 0 || x.LocalRank > 1 {
			t.Errorf("%+v", x)
		}
	}
	if now := b.read("t0"); !slices.Equal(now, first) {
		t.Errorf("the other trainer ran as %v, and was %v", now, first)
	}
	if given := b.read("given1"); !slices.Equal(given, []string{"1"}) {
		t.Errorf("the trainer was given ELASTIC_RESTARTED=%v", given)
	}
	if given := b.read("given0"); len(given) > 0 {
		t.Errorf("the other trainer was given ELASTIC_RESTARTED=%v", given)
	}
}

// A trainer that fails for ever is passed on as failed when the restarts of the node are used.
func TestATrainerFailsForEver(t *testing.T) {
	b := newBench(t)
	b.write("fail0", "100")
	b.start(b.config(1))
	if x := b.exit(); x.Code != 7 || x.LocalRank != 0 || x.Ours {
		t.Errorf("%+v", x)
	}
	if n := len(b.read("t0")); n != 3 {
		t.Errorf("it ran %d times, want 3", n)
	}
}

// The restarts of a node come back when no trainer has failed for long enough.
func TestRestartsAloneComeBack(t *testing.T) {
	b := newBench(t)
	b.write("fail0", "4")
	b.write("go", "")
	c := b.config(1)
	c.RefillAfter = time.Nanosecond
	b.start(c)
	if x := b.exit(); x.Code != 0 || x.LocalRank != 0 {
		t.Errorf("%+v", x)
	}
	if n := len(b.read("t0")); n != 5 {
		t.Errorf("it ran %d times, want 5", n)
	}
}

// Restarts are counted for all trainers of the node. Each failure delays their refill.
func TestAllowance(t *testing.T) {
	c, a, now := Config{Restarts: 2, RefillAfter: 10 * time.Minute}, allowance{}, time.Now()
	for i, want := range []struct {
		after time.Duration
		again int
	}{
		{0, 1}, {9 * time.Minute, 2}, {9 * time.Minute, 0}, {9 * time.Minute, 0},
		{10 * time.Minute, 1}, {0, 2}, {0, 0},
	} {
		now = now.Add(want.after)
		if got := a.take(&c, now); got != want.again {
			t.Errorf("failure %d: start %d again, want %d", i, got, want.again)
		}
	}
	if n := new(allowance).take(&Config{RefillAfter: time.Minute}, now); n != 0 {
		t.Errorf("with no restarts: start %d again", n)
	}
}

// The server stays for a generation with more trainers, under its new local rank.
func TestTheServerStays(t *testing.T) {
	b := newBench(t)
	b.start(b.config(1))
	<-b.Serving()
	server := b.runs("server", 1)[0]
	b.runs("t0", 1) // it started, and has written that it runs
	if err := b.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(t.Context()); !errors.Is(err, ErrCannotStay) {
		t.Errorf("paused twice: %v", err)
	}
	if err := b.Continue(b.config(3)); err != nil {
		t.Fatal(err)
	}
	b.runs("t2", 1)
	b.runs("t0", 2)
	if now := b.read("server"); !slices.Equal(now, []string{server}) {
		t.Errorf("the server is %v, and was %s", now, server)
	}
	pid, _ := strconv.Atoi(server)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if x := b.exit(); x.LocalRank != 3 || x.Signal != "SIGKILL" || b.Task(x.LocalRank).Role != roles.Server {
		t.Errorf("%+v", x)
	}
}

// Pause and Continue fail if a server has ended, or if a server of another node was started anew.
func TestNoServerStays(t *testing.T) {
	t.Run("it ended", func(t *testing.T) {
		b := newBench(t)
		b.start(b.config(1))
		<-b.Serving()
		if err := b.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(b.runs("server", 1)[0])
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if x := b.exit(); x.Signal != "SIGKILL" {
			t.Errorf("%+v", x)
		}
		if err := b.Continue(b.config(1)); !errors.Is(err, ErrCannotStay) {
			t.Errorf("continued: %v", err)
		}
	})
	t.Run("a trainer is through", func(t *testing.T) {
		b := newBench(t)
		b.write("go", "")
		b.start(b.config(1))
		b.exit()
		if err := b.Pause(t.Context()); !errors.Is(err, ErrCannotStay) {
			t.Errorf("paused: %v", err)
		}
	})
	for name, found := range map[string]string{"another one is new": "",
		"another one is new, at its address": "127.0.0.1:2"} {
		t.Run(name, func(t *testing.T) { otherIsNew(t, found) })
	}
}

// otherIsNew has the server of another node be another one in the next generation: at another port,
// or at the same one where its node has found another.
func otherIsNew(t *testing.T, found string) {
	b := newBench(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	at := other.Addr().String()
	b.start(b.config(1, b.at, at))
	<-b.Serving()
	b.runs("t0", 1)
	if err := b.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.last = found; found == "" {
		at = "127.0.0.1:" + b.port()
	}
	if err := b.Continue(b.config(1, b.at, at)); err != nil {
		t.Fatal(err)
	}
	if x := b.exit(); x.Code != 1 || x.Note == "" || b.Task(x.LocalRank).Role != roles.Server {
		t.Errorf("%+v", x)
	}
	if n := len(b.read("t0")); n != 1 {
		t.Errorf("the trainer was started %d times, want once", n)
	}
}

// A server's port that is in use is named before anything starts.
func TestAPortInUse(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", b.at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Start(t.Context(), b.config(1)); err == nil ||
		!strings.Contains(err.Error(), "server 0 cannot listen") {
		t.Errorf("started: %v", err)
	}
	if runs := b.read("t0"); len(runs) > 0 {
		t.Error("a trainer ran")
	}
}
