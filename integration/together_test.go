package integration

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// counting is a trainer that saves only when it gets a signal: rank 0 writes a step that is one
// higher than the one from which it began.
const counting = `
import os, signal, sys, time
d, rank = os.environ["ELASTIC_CHECKPOINT_DIR"], int(os.environ["RANK"])
resume = os.environ["ELASTIC_RESUME_FROM"]
step = int(open(resume).read()) if resume else 0
print("began", step, flush=True)
def end(*_):
    if rank == 0:
        time.sleep(0.5)
        with open(f"{d}/step.tmp", "w") as f:
            f.write(str(step + 1))
        os.replace(f"{d}/step.tmp", f"{d}/step.raw")
        print("saved", step + 1, flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
open(f"up.{os.environ['ELASTIC_NODE']}.{os.environ['ELASTIC_GENERATION']}", "w").close()
time.sleep(1000)
`

// A scheduler sends a signal to agents and workers of all nodes at the same time. The saves that
// the workers then make are committed, and the next generation goes on from them. COUNT repeats it.
func TestSignalledTogether(t *testing.T) {
	for name, np := range map[string]string{"exactly": "2", "range": "1:2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			saved := 0
			for round := range max(3, soak(t)) {
				nodes := p.pair(np, "/usr/bin/python3", "-c", counting)
				p.upAndTraining()
				p.signalAll(round, "signal.signal")
				for _, x := range nodes {
					p.ends(x, 75)
				}
				if at := first(began, nodes); at != saved {
					t.Fatalf("round %d: %d was saved, and a worker began with %d", round, saved, at)
				}
				saved = last(savedStep, nodes)
			}
		})
	}
	t.Run("trainer", func(t *testing.T) { // it saves when it is asked, and at no other time
		t.Parallel()
		p := newSandbox(t)
		for round := range max(3, soak(t)) {
			nodes := p.pair("2", "train", "--steps=1000000", "--step-sleep=20ms", "--save-every=1h")
			until(t, "it trains", func() error {
				if !strings.Contains(nodes[0].stdout()+nodes[1].stdout(), "step ") {
					return fmt.Errorf("not yet")
				}
				return nil
			})
			p.signalAll(round, "--save-every")
			for _, x := range nodes {
				p.ends(x, 75)
			}
			if n := len(kinds(p.events("x"), "checkpoint_committed")); n != round+1 {
				t.Fatalf("%d saves were committed after %d rounds", n, round+1)
			}
		}
	})
}

// signalAll sends SIGTERM to every process of the nodes, to the workers first; in each second round
// to the agents when one worker has ended.
func (p *sandbox) signalAll(round int, program string) {
	p.t.Helper()
	all := p.left()
	isWorker := func(x process) bool {
		return strings.Contains(x.line, program) && !strings.Contains(x.line, "--node=")
	}
	for _, x := range all {
		if isWorker(x) {
			x.signal(syscall.SIGTERM)
		}
	}
	if round%2 == 1 {
		until(p.t, "one worker has ended", func() error {
			if !slices.ContainsFunc(all, func(x process) bool { return isWorker(x) && !alive(x.pid) }) {
				return fmt.Errorf("not yet")
			}
			return nil
		})
	}
	for _, x := range all {
		if !isWorker(x) {
			x.signal(syscall.SIGTERM)
		}
	}
}

// pair starts two nodes, and returns when both train.
func (p *sandbox) pair(np string, program ...string) (nodes []*proc) {
	p.t.Helper()
	for _, name := range []string{"a", "b"} {
		nodes = append(nodes,
			p.run(append([]string{"--np=" + np, "--job-id=x", "--node=" + name, "--last-call=1s", "--console=all"},
				program...)...))
	}
	p.reaches("x", "both train", func(s status) error {
		if s.State != "running" || s.WorldSize != 2 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	return nodes
}

// upAndTraining waits until the workers of both nodes can be signalled, and returns their
// generation.
func (p *sandbox) upAndTraining() (g int) {
	p.t.Helper()
	until(p.t, "its workers can be signalled", func() error {
		st, err := p.status("x")
		g = st.Generation
		_, a := os.Stat(p.path(fmt.Sprintf("up.a.%d", g)))
		_, b := os.Stat(p.path(fmt.Sprintf("up.b.%d", g)))
		return errors.Join(err, a, b)
	})
	return g
}

// first is the least number that the nodes printed with these words, last the largest.
func first(words *regexp.Regexp, nodes []*proc) int { return slices.Min(numbers(words, nodes)) }
func last(words *regexp.Regexp, nodes []*proc) int  { return slices.Max(numbers(words, nodes)) }

func numbers(words *regexp.Regexp, nodes []*proc) []int {
	all := []int{}
	for _, x := range nodes {
		for _, m := range words.FindAllStringSubmatch(x.stdout(), -1) {
			n, _ := strconv.Atoi(m[1])
			all = append(all, n)
		}
	}
	return append(all[:len(all):len(all)], slices.Repeat([]int{-1}, max(0, 1-len(all)))...)
}

// While the server stands still nothing can be committed. What the workers save when their node is
// asked to go is committed all the same: by the node, when it comes back, or by the one that has
// the copy, before it goes on.
func TestLeaveWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	nodes := p.pair("1:2", "/usr/bin/python3", "-c", counting)
	p.upAndTraining()
	server := p.localServer()
	server.signal(syscall.SIGSTOP)
	for _, x := range nodes {
		if err := x.kill(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range nodes {
		p.ends(x, 75)
	}
	saved := last(savedStep, nodes)
	if said := nodes[0].stderr() + nodes[1].stderr(); !strings.Contains(said,
		"is on this disk and could not be committed") {
		t.Errorf("no line says that the save is not committed:\n%s", tail(said))
	}
	server.signal(syscall.SIGCONT)
	nodes = p.pair("1:2", "/usr/bin/python3", "-c", counting)
	g := p.upAndTraining()
	if at := last(began, nodes); at != saved {
		t.Fatalf("%d was saved, and a worker began with %d", saved, at)
	}

	zero, other := nodes[0], nodes[1]
	if st := p.running("x", g, 2); st.rank("a") != 0 {
		zero, other = other, zero
	}
	server.signal(syscall.SIGSTOP)
	if err := zero.kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(zero, 75)
	saved = last(savedStep, []*proc{zero})
	server.signal(syscall.SIGCONT)
	p.running("x", g+1, 1)
	p.says(other, fmt.Sprintf("a save that generation %d left on this node is committed", g))
	until(t, "it goes on from the save", func() error {
		if at := last(began, []*proc{other}); at != saved {
			return fmt.Errorf("%d was saved, and a worker began with %d", saved, at)
		}
		return nil
	})
}

var savedStep = regexp.MustCompile(`(?m)saved (.*)$`)
