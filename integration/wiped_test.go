package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// loses kills the servers, deletes their data and starts them again at the same addresses. between
// happens while there is no server.
func (p *sandbox) loses(all []*daemon, between func()) {
	p.t.Helper()
	for _, d := range all {
		d.end()
	}
	for i := range all {
		if err := os.RemoveAll(filepath.Join(p.dir, fmt.Sprintf("data-m%d", i))); err != nil {
			p.t.Fatal(err)
		}
	}
	between()
	for _, d := range all {
		d.start()
	}
}

// trains is trainNode without an end.
func trains(p *sandbox, node string, np int, more ...string) *proc {
	return trainNode(p, node, np, append([]string{"--steps=100000"}, more...)...)
}

// trainedOn waits until job x, which the server has lost, is made again on n nodes. It checks that the
// workers of generation g went on or began at a checkpoint, and that the job goes on to commit.
func (p *sandbox) trainedOn(g, n int, all ...*proc) {
	p.t.Helper()
	until(p.t, "the job is made again", func() error {
		out, err := p.try("events", "x") // the server may not answer yet
		if n := strings.Count(out, "  job_remade  "); err == nil && n != 1 {
			err = fmt.Errorf("%d times", n)
		}
		return err
	})
	p.goesOn(g, n, all...)
}

// goesOn waits until generation g of job x runs and commits, and ends it.
func (p *sandbox) goesOn(g, n int, all ...*proc) {
	p.t.Helper()
	p.running("x", g, n)
	until(p.t, "it commits again", func() error {
		for _, e := range kinds(p.events("x"), "checkpoint_committed") {
			if e.Generation >= g {
				return nil
			}
		}
		return fmt.Errorf("not yet")
	})
	for began, from := range steps(all...) {
		if began > 1 && from == 0 {
			p.t.Errorf("generation %d started from scratch", began)
		}
		if began > g {
			p.t.Errorf("generation %d was started", began)
		}
	}
	p.must("stop", "x")
	for _, x := range all {
		p.ends(x, 93)
	}
}

// flagged is trains with a flag of `elastic run`.
func flagged(p *sandbox, flag, node string, np int) *proc {
	return p.run(flag, "--node="+node, fmt.Sprintf("--np=%d", np), "--job_id=x", "--batch-size=256",
		"--lr=0.1", "--scaling=fixed-batch", "--log-dir=log-"+node, "train", "--steps=400",
		"--step-sleep=10ms", "--save-every=300ms", "--steps=100000")
}

const remade = "elastic: the server had lost job x; it was made again, and training goes on"

// A server comes back without its data. Workers do not start again.
func TestServerLosesEverything(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("members=%d", members), func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			servers := p.daemons(members)
			a, b := trains(p, "a", 2), trains(p, "b", 2)
			p.running("x", 1, 2)
			p.committed("x", 3)
			p.loses(servers, func() {
				for _, x := range []*proc{a, b} {
					p.says(x, "the server does not answer; workers go on")
				}
			})
			for _, x := range []*proc{a, b} {
				p.says(x, remade)
			}
			p.trainedOn(1, 2, a, b)
		})
	}
}

// A node is lost with the server. The others make the job again, and it goes on with another node.
func TestServerAndOneNodeLost(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	servers := p.daemons(1)
	a, b, c := trains(p, "a", 2), trains(p, "b", 2), trains(p, "c", 2)
	st := p.running("x", 1, 2)
	p.committed("x", 3)
	all := map[string]*proc{"a": a, "b": b, "c": c}
	var killed string
	for name := range all {
		if st.rank(name) == 0 {
			killed = name
		}
	}
	p.loses(servers, func() {
		p.kill(all[killed])
		<-all[killed].done
	})
	delete(all, killed)
	p.trainedOn(2, 2, slices.Collect(maps.Values(all))...)
}

// The same with the local server, which the agents start again by themselves.
func TestLocalServerLosesEverything(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a, b := trains(p, "a", 2), trains(p, "b", 2)
	p.running("x", 1, 2)
	p.committed("x", 2)
	p.localServerLoses(func() {})
	p.trainedOn(1, 2, a, b)
}

// localServerLoses ends the local server, and deletes its data.
func (p *sandbox) localServerLoses(before func()) {
	p.t.Helper()
	data, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "elasticd"))
	if err != nil || len(data) != 1 {
		p.t.Fatalf("%v %v", data, err)
	}
	was := p.localServer()
	before()
	if err := os.RemoveAll(data[0]); err != nil {
		p.t.Fatal(err)
	}
	was.signal(syscall.SIGKILL)
	until(p.t, "the server is gone", func() error {
		if alive(was.pid) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// trainedPair is a job of the nodes a and b on an elasticd of its own, whose checkpoint n is
// committed.
func trainedPair(p *sandbox, n int) (servers []*daemon, a, b *proc) {
	p.t.Helper()
	servers = p.daemons(1)
	a, b = trains(p, "a", 2), trains(p, "b", 2)
	p.running("x", 1, 2)
	p.committed("x", n)
	return servers, a, b
}

// refuses waits until the agent x is refused with that code.
func (p *sandbox) refuses(x *proc, code string) {
	p.t.Helper()
	p.ends(x, 94)
	if said := x.stderr(); !strings.Contains(said, "["+code+"]") || !strings.Contains(said, "has checkpoint ") {
		p.t.Errorf("%s says:\n%s", x, tail(said))
	}
}

// All agents die with the server. Each start is refused, as often as it is tried, and does not disturb
// another node, until the operator recovers the job.
func TestServerAndAllAgentsLost(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	servers, a, b := trainedPair(p, 3)
	newest := p.newestStep()
	p.loses(servers, func() {
		p.kill(a, b)
		<-a.done
		<-b.done
	})
	for range 2 {
		p.refuses(trains(p, "a", 2), "E-OTHER-SERVER")
	}
	if out := p.must("recover", "x", "--dry-run"); !strings.Contains(out, "a ") || !strings.Contains(out, "b ") {
		t.Errorf("it lists\n%s", out)
	}
	p.must("recover", "x")
	a, b = trains(p, "a", 2), trains(p, "b", 2)
	p.beginsAt(newest, a, b)
}

// newestStep is the step of the newest checkpoint of job x.
func (p *sandbox) newestStep() (newest int) {
	p.t.Helper()
	for _, e := range kinds(p.events("x"), "checkpoint_committed") {
		newest = max(newest, e.Step)
	}
	return newest
}

// beginsAt checks that the newest generation, which may be any, begins at a step that is not before
// oldest, and says whose checkpoint it is. It ends the job.
func (p *sandbox) beginsAt(oldest int, all ...*proc) {
	p.t.Helper()
	st := p.reaches("x", "it runs", func(s status) error {
		if s.State != "running" {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	if brought := kinds(p.events("x"), "checkpoint_brought"); len(brought) != 1 {
		p.t.Errorf("checkpoint_brought: %v", brought)
	}
	until(p.t, "workers say where they begin", func() error {
		from, ok := steps(all...)[st.Generation]
		if !ok {
			return fmt.Errorf("not yet")
		}
		if from < oldest {
			p.t.Errorf("they begin at step %d, and %d was committed", from, oldest)
		}
		return nil
	})
	p.goesOn(st.Generation, len(all), all...)
}

// A job name was tried on a laptop and is then used on a cluster. The node that was on the laptop's
// server is refused, and what it has is kept. The first server has its job as before.
func TestANameOfAnotherServer(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	_, a, b := trainedPair(p, 2)
	for _, x := range []*proc{a, b} {
		if err := x.kill(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-x.done
	}
	first, newest := p.at, p.newestStep()
	q := newSandbox(t)
	q.daemons(1)
	p.at = q.at
	p.refuses(trains(p, "a", 2), "E-OTHER-SERVER")
	a, c := flagged(p, "--again", "a", 2), trains(p, "c", 2)
	p.goesOn(1, 2, a, c)
	_, run, found := strings.Cut(p.command("ckpt", "ls", "x").stderr, " --run=")
	if !found {
		t.Fatal("ckpt ls does not list what was moved aside")
	}
	p.must("recover", "x", "--run="+strings.TrimSpace(run))
	p.beginsAt(newest, trains(p, "a", 2), trains(p, "c", 2))
	p.at = first
	a, b = trains(p, "a", 2), trains(p, "b", 2)
	p.reaches("x", "it goes on", func(s status) error {
		if s.State != "running" {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	until(t, "workers say where they begin", func() error {
		for _, from := range steps(a, b) {
			if from != newest {
				t.Errorf("they begin at step %d, the newest checkpoint is of step %d", from, newest)
			}
			return nil
		}
		return fmt.Errorf("not yet")
	})
	p.must("stop", "x")
	p.ends(a, 93)
	p.ends(b, 93)
}

// keeps stops the servers, copies their data, and starts them again. setBack puts the copy in place
// of the data while they are stopped.
func (p *sandbox) keeps(all []*daemon) (setBack func(between func())) {
	p.t.Helper()
	data := func(i int) string { return filepath.Join(p.dir, fmt.Sprintf("data-m%d", i)) }
	copyAll := func(from, to string) {
		p.t.Helper()
		for i := range all {
			if err := os.RemoveAll(data(i) + to); err != nil {
				p.t.Fatal(err)
			}
			err := os.Remove(filepath.Join(data(i)+from, "clients.sock")) // CopyFS copies files only
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				p.t.Fatal(err)
			}
			if err := os.CopyFS(data(i)+to, os.DirFS(data(i)+from)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	swap := func(from, to string, between func()) {
		for _, d := range all {
			d.end()
		}
		copyAll(from, to)
		between()
		for _, d := range all {
			d.start()
		}
	}
	swap("", ".copy", func() {})
	return func(between func()) { swap(".copy", "", between) }
}

// A server comes back with an older copy of its data. Agents that live go on; agents that were ended
// are refused, until the operator recovers the job.
func TestServerSetBack(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"agents alive": false, "agents restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			servers, a, b := trainedPair(p, 2)
			setBack := p.keeps(servers)
			p.running("x", 1, 2)
			p.kill(b)
			<-b.done
			b = trains(p, "b", 2)
			p.running("x", 2, 2)
			p.committed("x", 5)
			newest := p.newestStep()
			setBack(func() {
				if !restart {
					return
				}
				for _, x := range []*proc{a, b} {
					p.kill(x)
					<-x.done
				}
			})
			if !restart {
				p.says(a, remade)
				p.says(b, remade)
				p.trainedOn(2, 2, a, b)
				return
			}
			p.refuses(trains(p, "a", 2), "E-STORE-BEHIND")
			p.refuses(trains(p, "b", 2), "E-STORE-BEHIND")
			p.must("recover", "x")
			a, b = trains(p, "a", 2), trains(p, "b", 2)
			p.beginsAt(newest, a, b)
		})
	}
}

// An id of another launcher is used on one server after the other, as its rendezvous moves. A run that
// was done is kept aside; one that was not is not forgotten.
func TestAnIDOfAnotherLauncherOnAnotherServer(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	run := func(steps int) *proc {
		q := newSandbox(t)
		q.daemons(1)
		p.at = q.at
		return p.run("--rdzv-id=r", "--nnodes=1", "--node=a", "train", fmt.Sprintf("--steps=%d", steps),
			"--step-sleep=10ms", "--save-every=300ms")
	}
	p.ends(run(60), 0)
	again := run(100000)
	p.says(again, "this node had data of another job r")
	p.running("r", 1, 1)
	p.committed("r", 1)
	p.kill(again)
	<-again.done
	p.refuses(run(60), "E-OTHER-SERVER")
}
