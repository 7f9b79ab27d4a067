package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// stayers is a job whose workers stay when the world changes.
type stayers struct {
	*sandbox
	python, script string
	arguments      []string // of the script
	np             string   // "": 2:3
	nodes          map[string]*proc
	took           times
}

// newStayers returns a job of testdata/stay.py, run by the interpreter of this machine or by TORCH.
func newStayers(t *testing.T) *stayers {
	script, err := filepath.Abs("testdata/stay.py")
	if err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3")
	s := &stayers{sandbox: newSandbox(t), python: python, script: script, nodes: map[string]*proc{},
		took: times{}}
	s.set("OMP_NUM_THREADS=1")
	return s
}

// up starts a node. No warm worker waits in it: these tests do not need one, and it imports torch.
func (s *stayers) up(node string) {
	args := []string{"--node=" + node, "--np=" + cmp.Or(s.np, "2:3"), "--job-id=x", "--batch-size=48", "--lr=0.05",
		"--base-np=3", "--scaling=fixed-batch", "--last-call=200ms", "--warm=off",
		"--log-dir=log-" + node, s.python, s.script}
	s.nodes[node] = s.run(append(args, s.arguments...)...)
}

var trainsIn = regexp.MustCompile(
	`generation (\d+) rank (\d+) of (\d+) pid (\d+): step (\d+) at (\d+) after (\d+)(?: called (\d+))?`)

// training is the last report of a worker: its first step in a generation, and, in nanoseconds,
// when that step ended, when the step before ended, and when the training function was called. 0:
// not reported.
type training struct{ generation, rank, size, pid, step, at, after, called int }

func (s *stayers) training(node string) (at training) {
	for _, m := range trainsIn.FindAllStringSubmatch(s.nodes[node].stdout(), -1) {
		fields := []*int{&at.generation, &at.rank, &at.size, &at.pid, &at.step, &at.at, &at.after, &at.called}
		for i, to := range fields {
			*to, _ = strconv.Atoi(m[i+1])
		}
	}
	return at
}

// trains waits until these nodes train in a world of their own, newer than g, and returns its
// generation.
func (s *stayers) trains(g int, nodes ...string) int {
	s.t.Helper()
	var first training
	within(s.t, 4*limit, fmt.Sprintf("%v train in a generation after %d", nodes, g), func() error {
		for i, n := range nodes {
			at := s.training(n)
			if i == 0 {
				first = at
			}
			if at.generation <= g || at.generation != first.generation || at.size != len(nodes) {
				return fmt.Errorf("%s: %+v", n, at)
			}
		}
		return nil
	})
	return first.generation
}

// ended is the line that a worker of the script writes at its end; torch may write more after it.
var ended = regexp.MustCompile(`(?m)^through: .*$`)

// step returns the step that the newest world reported last.
func (s *stayers) step() (step float64) {
	s.t.Helper()
	until(s.t, "the newest world reports a step", func() error {
		progress, _ := s.object("status", "x")["progress"].(map[string]any)
		var ok bool
		if step, ok = progress["step"].(float64); !ok {
			return fmt.Errorf("progress is %v", progress)
		}
		return nil
	})
	return step
}

// goesOn waits until n more steps have been made.
func (s *stayers) goesOn(steps int) {
	s.t.Helper()
	from := s.step()
	until(s.t, fmt.Sprintf("training goes on for %d steps", steps), func() error {
		if now := s.step(); now < from+float64(steps) {
			return fmt.Errorf("step %.0f, which was %.0f", now, from)
		}
		return nil
	})
}

// finish lets the job end some steps later, and checks that every worker has the result of an
// undisturbed run.
func (s *stayers) finish() {
	s.t.Helper()
	s.finishIn(500)
}

// finishIn is finish, after that many steps.
func (s *stayers) finishIn(steps int) {
	s.t.Helper()
	target := strconv.Itoa(int(s.step()) + steps)
	if err := os.WriteFile(s.path("target"), []byte(target), 0o600); err != nil {
		s.t.Fatal(err)
	}
	want := s.undisturbed()
	for _, x := range s.nodes {
		s.ends(x, 0)
		if got := ended.FindString(x.stdout()); got != want {
			s.t.Errorf("a worker ends with %q, and undisturbed training with %q", got, want)
		}
	}
}

// undisturbed returns the last line of a run of one process.
func (s *stayers) undisturbed() string {
	s.t.Helper()
	helper, err := filepath.Abs("../python")
	if err != nil {
		s.t.Fatal(err)
	}
	alone := exec.Command(s.python, append([]string{s.script}, s.arguments...)...)
	alone.Dir = s.path()
	alone.Env = append(os.Environ(), "PACE=0", "OMP_NUM_THREADS=1", "PYTHONPATH="+helper)
	out, err := alone.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	want := ended.FindString(string(out))
	if want == "" {
		s.t.Fatalf("undisturbed training prints no end:\n%s", out)
	}
	return want
}

// fault kills a node, or freezes it with its workers and kills it when the others go on. It returns
// the generation of the others.
func (s *stayers) fault(g int, node string, still bool, others ...string) int {
	s.t.Helper()
	began := time.Now()
	if still {
		for _, w := range s.workersOf(node, s.script) {
			w.signal(syscall.SIGSTOP)
		}
		_ = s.nodes[node].kill(syscall.SIGSTOP)
		g = s.trains(g, others...)
	}
	_ = s.nodes[node].kill(syscall.SIGKILL)
	<-s.nodes[node].done
	if !still {
		g = s.trains(g, others...)
		s.took.add("killed -> lost", s.reported("node_lost", node).Sub(began))
		s.passes("killed", began, g, others...)
	} else {
		s.passes("decided", s.reported("node_lost", node), g, others...)
	}
	return g
}

// The node of rank 0 is killed, and another one joins. The processes of the other nodes stay, and
// no step is lost or made twice, although no checkpoint is saved. COUNT is how often a node is
// killed or frozen, in turn. SEED determines the nodes and times. With EVERY, nodes are only
// killed, one in each such period.
func TestWorkersStayInTheirProcesses(t *testing.T) {
	t.Parallel()
	s := newStayers(t)
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	r := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b", "c"}
	for _, n := range names {
		s.up(n)
	}
	every, _ := time.ParseDuration(os.Getenv("EVERY"))
	g := s.trains(0, names...)
	for round := range soak(t) {
		next := time.After(every)
		at, still := 0, every == 0 && round%2 == 1
		if round > 0 {
			at = r.IntN(len(names))
			s.goesOn(r.IntN(300))
		}
		others := []string{names[(at+1)%3], names[(at+2)%3]}
		before := map[string]int{}
		for _, n := range others {
			before[n] = s.training(n).pid
		}
		g = s.fault(g, names[at], still, others...)
		delete(s.nodes, names[at])
		names[at] = fmt.Sprintf("n%d", round) // a node that is lost again and again would be kept out
		s.up(names[at])
		g = s.trains(g, names...)
		s.passes("step before a join", s.last(others...), g, others...)
		for _, n := range others {
			if now := s.training(n).pid; now != before[n] {
				t.Errorf("round %d: the worker of %s was process %d, and is %d", round, n, before[n], now)
			}
		}
		<-next
	}
	s.logKept()
	s.finish()
	s.took.log(t)
}
