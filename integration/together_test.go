package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// counting is a trainer that saves only when it gets a signal: rank 0 writes a step that is one
// higher than the one from which it began. It notes both steps in files, as began.NODE.GENERATION
// and saved.NODE.GENERATION: a worker ends before the next generation begins, so its notes are
// complete by then. The output of its agent may be written later.
const counting = `
import os, signal, sys, time
d, rank = os.environ["ELASTIC_CHECKPOINT_DIR"], int(os.environ["RANK"])
resume = os.environ["ELASTIC_RESUME_FROM"]
step = int(open(resume).read()) if resume else 0
def write(path, n):
    with open(path + ".tmp", "w") as f:
        f.write(str(n))
    os.replace(path + ".tmp", path)
def note(what, n):
    write(f"{what}.{os.environ['ELASTIC_NODE']}.{os.environ['ELASTIC_GENERATION']}", n)
def end(*_):
    if rank == 0:
        time.sleep(0.5)
        write(f"{d}/step.raw", step + 1)
        note("saved", step + 1)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
note("began", step)
time.sleep(1000)
`

// A scheduler sends a signal to agents and workers of all nodes at the same time. The saves that
// the workers then make are committed, and the next generation goes on from them. COUNT repeats it.
func TestSignalledTogether(t *testing.T) {
	t.Parallel()
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
				before := saved
				if saved = p.lastSaved(); saved <= before {
					t.Fatalf("round %d: the workers saved nothing after %d", round, before)
				}
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
		_, a := os.Stat(p.path(fmt.Sprintf("began.a.%d", g)))
		_, b := os.Stat(p.path(fmt.Sprintf("began.b.%d", g)))
		return errors.Join(err, a, b)
	})
	return g
}

// lastSaved returns the newest step that the workers saved, 0 if there is none. Each generation must
// have begun with the newest step that was saved before it. There may be more generations than the
// test asked for: if one node is ready before the other, the job begins with it alone, and the
// workers save when the other joins.
func (p *sandbox) lastSaved() (saved int) {
	p.t.Helper()
	notes := p.notes()
	for _, g := range slices.Sorted(maps.Keys(notes)) {
		for _, step := range notes[g]["began"] {
			if step != saved {
				p.t.Errorf("%d was saved, and a worker of generation %d began with %d", saved, g, step)
			}
		}
		for _, step := range notes[g]["saved"] {
			saved = step
		}
	}
	return saved
}

// notes returns the steps that the workers noted, by generation and by "began" or "saved".
func (p *sandbox) notes() map[int]map[string][]int {
	p.t.Helper()
	files, err := filepath.Glob(p.path("*.[ab].*[0-9]"))
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[int]map[string][]int{}
	for _, f := range files {
		name := strings.Split(filepath.Base(f), ".")
		g, err1 := strconv.Atoi(name[2])
		step, err2 := strconv.Atoi(content(f))
		if err := errors.Join(err1, err2); err != nil {
			p.t.Fatal(err)
		}
		if all[g] == nil {
			all[g] = map[string][]int{}
		}
		all[g][name[0]] = append(all[g][name[0]], step)
	}
	return all
}

// While the server is frozen nothing can be committed. A save that the workers make when their node
// is asked to leave is committed later: by that node when it comes back, or by the node with the
// copy before it goes on.
func TestLeaveWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	nodes := p.pair("1:2", "/usr/bin/python3", "-c", counting)
	p.upAndTraining()
	before := p.lastSaved()
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
	if saved := p.lastSaved(); saved != before+1 {
		t.Fatalf("the workers began with %d, and saved %d", before, saved)
	}
	if said := nodes[0].stderr() + nodes[1].stderr(); !strings.Contains(said,
		"is on this disk and could not be committed") {
		t.Errorf("no line says that the save is not committed:\n%s", tail(said))
	}
	server.signal(syscall.SIGCONT)
	nodes = p.pair("1:2", "/usr/bin/python3", "-c", counting)
	g := p.upAndTraining()
	before = p.lastSaved()

	zero, other := nodes[0], nodes[1]
	if st := p.running("x", g, 2); st.rank("a") != 0 {
		zero, other = other, zero
	}
	server.signal(syscall.SIGSTOP)
	if err := zero.kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(zero, 75)
	if saved := p.lastSaved(); saved != before+1 {
		t.Fatalf("the workers began with %d, and saved %d", before, saved)
	}
	server.signal(syscall.SIGCONT)
	p.running("x", g+1, 1)
	p.says(other, fmt.Sprintf("a save that generation %d left on this node is committed", g))
	until(t, "the next generation begins", func() error {
		if len(p.notes()[g+1]["began"]) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	p.lastSaved() // it began with the save
}
