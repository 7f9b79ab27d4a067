package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

// madeAgain waits until the job runs again as generation g on n nodes. It checks that the job goes
// on from a checkpoint, with an event, and with a generation above all earlier ones.
func (p *sandbox) madeAgain(g, n int, all ...*proc) {
	p.t.Helper()
	p.running("x", g, n)
	if made := kinds(p.events("x"), "job_created"); len(made) != 0 {
		p.t.Errorf("job_created: %v", made)
	}
	p.goesOnFromDisks(g, n, all...)
}

// goesOnFromDisks is madeAgain for a server on which the job may have been made anew before.
func (p *sandbox) goesOnFromDisks(g, n int, all ...*proc) {
	p.t.Helper()
	p.running("x", g, n)
	if remade := kinds(p.events("x"), "job_remade"); len(remade) != 1 {
		p.t.Errorf("job_remade: %v", remade)
	}
	until(p.t, fmt.Sprintf("generation %d says where it started", g), func() error {
		if from, ok := steps(all...)[g]; !ok {
			return fmt.Errorf("it says nothing yet")
		} else if from == 0 {
			p.t.Fatalf("generation %d started from scratch", g)
		}
		return nil
	})
	// It goes on to save and to commit, with copies.
	until(p.t, "it commits again", func() error {
		for _, e := range kinds(p.events("x"), "checkpoint_committed") {
			if e.Generation >= g {
				return nil
			}
		}
		return fmt.Errorf("not yet")
	})
	p.must("stop", "x")
	for _, x := range all {
		p.ends(x, 93)
	}
}

// A server comes back without its data. Workers go on until the job is made again from the disks of
// the nodes.
func TestServerLosesEverything(t *testing.T) {
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
				p.says(x, "elastic: the server lost job x; it was made again and goes on from checkpoint ")
			}
			p.madeAgain(2, 2, a, b)
		})
	}
}

// The same with the local server, which the agents start again by themselves.
func TestLocalServerLosesEverything(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a, b := trains(p, "a", 2), trains(p, "b", 2)
	p.running("x", 1, 2)
	p.committed("x", 2)
	data, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "elasticd"))
	if err != nil || len(data) != 1 {
		t.Fatalf("%v %v", data, err)
	}
	was := p.localServer()
	if err := os.RemoveAll(data[0]); err != nil {
		t.Fatal(err)
	}
	was.signal(syscall.SIGKILL)
	p.madeAgain(2, 2, a, b)
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

// All agents die with the server. The first node that comes back waits for the other, and says so;
// a new node does not make the job again.
func TestServerAndAllAgentsLost(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	servers, a, b := trainedPair(p, 3)
	p.loses(servers, func() {
		p.kill(a, b)
		<-a.done
		<-b.done
	})
	a = trains(p, "a", 2)
	until(t, "a claims the job", func() error {
		r := p.command("status", "x")
		if r.status != 1 || !strings.Contains(r.stderr, "[E-JOB-LOST]") ||
			!strings.Contains(r.stderr, "waiting for b") {
			return fmt.Errorf("status: %d %s", r.status, r.stderr)
		}
		return nil
	})
	c := trains(p, "c", 2)
	p.says(c, "waiting until")
	b = trains(p, "b", 2)
	p.madeAgain(2, 2, a, b, c)
}

// onItsOwn runs a node with a disk of its own, as on another machine.
func onItsOwn(p *sandbox, node string) *proc {
	return p.run("--node="+node, "--np=2", "--job_id=x", "--state-dir="+p.path("disk-"+node),
		"--log-dir=log-"+node, "train", "--steps=100000", "--step-sleep=10ms", "--save-every=300ms")
}

// rememberSpare writes to the disk of a node that it knows a spare of the newest World.
func (p *sandbox) rememberSpare(node, spare string) {
	p.t.Helper()
	found, err := filepath.Glob(p.path("disk-"+node, "*", "nodes", node, "jobs", "x", "claim"))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("what %s remembers: %v %v", node, found, err)
	}
	var kept map[string]any
	if err := json.Unmarshal([]byte(content(found[0])), &kept); err != nil {
		p.t.Fatal(err)
	}
	kept["claim"].(map[string]any)["spares"] = []string{spare}
	b, err := json.Marshal(kept)
	if err == nil {
		err = os.WriteFile(found[0], b, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// A spare died before it heard of any generation, and then all others with the server. It comes back
// first, to the job of the same name that a new machine has made, and its files are moved aside. The
// others do not wait for it while it is there. If it is started again, it goes back to their job.
func TestASpareIsInANewJobOfThatName(t *testing.T) {
	for name, restarted := range map[string]bool{"runs on": false, "starts again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			servers := p.daemons(1)
			const alone = "waiting for 1 more node"
			gone := func(x *proc) {
				t.Helper()
				p.kill(x)
				p.reaches("x", "no node is there", func(s status) error {
					if n := len(s.Nodes); n > 0 {
						return fmt.Errorf("%d nodes", n)
					}
					return nil
				})
			}
			c := onItsOwn(p, "c")
			p.says(c, alone)
			gone(c)
			a, b := onItsOwn(p, "a"), onItsOwn(p, "b")
			p.running("x", 1, 2)
			p.committed("x", 3)
			p.loses(servers, func() {
				p.kill(a, b)
				<-a.done
				<-b.done
				p.rememberSpare("a", "c")
				p.rememberSpare("b", "c")
			})
			d := onItsOwn(p, "d")
			p.says(d, alone)
			gone(d)
			c = onItsOwn(p, "c")
			p.says(c, alone)
			p.says(c, "it was moved to")
			if restarted {
				p.kill(c)
				<-c.done
			}
			a, b = onItsOwn(p, "a"), onItsOwn(p, "b")
			if restarted {
				p.says(a, "waiting for c")
				c = onItsOwn(p, "c")
			}
			p.goesOnFromDisks(2, 2, a, b, c)
			if aside, err := filepath.Glob(p.path("disk-c", "*", "nodes", "c", "jobs", "x~*")); err != nil ||
				len(aside) != 1 {
				t.Errorf("c has moved aside %v (%v)", aside, err)
			}
		})
	}
}

// The missing nodes never come back: the operator goes on without them.
func TestLostForGood(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	servers, a, b := trainedPair(p, 3)
	p.loses(servers, func() {
		p.kill(b)
		<-b.done
	})
	number := 0
	until(t, "a claims the job", func() error {
		r := p.command("ckpt", "restore", "x", "99")
		if r.status != 1 || !strings.Contains(r.stderr, "[E-CKPT-NONE]") {
			return fmt.Errorf("restore of what is not there: %d %s", r.status, r.stderr)
		}
		_, all, _ := strings.Cut(r.stderr, "they have ")
		if _, err := fmt.Sscanf(all, "%d", &number); err != nil {
			return fmt.Errorf("%v: %s", err, r.stderr)
		}
		return nil
	})
	out := p.must("ckpt", "restore", "x", fmt.Sprint(number))
	if !strings.Contains(out, "is made again") || !strings.Contains(out, "without b") {
		t.Errorf("it says %q", out)
	}
	c := trains(p, "c", 2)
	p.madeAgain(2, 2, a, c)
}

// A new node finds that another node of its machine, which does not run, has checkpoints of the
// job. It does not create the job until the operator gives them up.
func TestBeginAnewAfterALoss(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := trains(p, "a", 1)
	p.running("x", 1, 1)
	p.committed("x", 1)
	data, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "elasticd"))
	if err != nil || len(data) != 1 {
		t.Fatalf("%v %v", data, err)
	}
	p.kill(a)
	<-a.done
	was := p.localServer()
	was.signal(syscall.SIGKILL)
	until(t, "the server is gone", func() error {
		if alive(was.pid) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if err := os.RemoveAll(data[0]); err != nil {
		t.Fatal(err)
	}
	c := trains(p, "c", 1)
	p.says(c, "node a of this machine was in it")
	p.must("rm", "x")
	p.running("x", 1, 1)
	if made := kinds(p.events("x"), "job_created"); len(made) != 1 {
		t.Errorf("job_created: %v", made)
	}
	p.must("stop", "x")
	p.ends(c, 93)
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

// A server that comes back with an older copy of its data, while the agents are alive or after they
// were restarted: the job is made again above every generation, from a checkpoint that is not older
// than the newest that was committed.
func TestServerSetBack(t *testing.T) {
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
			newest := 0
			for _, e := range kinds(p.events("x"), "checkpoint_committed") {
				newest = max(newest, e.Step)
			}
			setBack(func() {
				if !restart {
					return
				}
				for _, x := range []*proc{a, b} {
					p.kill(x)
					<-x.done
				}
			})
			if restart {
				a, b = trains(p, "a", 2), trains(p, "b", 2)
			}
			for _, x := range []*proc{a, b} {
				p.says(x, "elastic: the server lost job x; it was made again and goes on from checkpoint ")
			}
			p.running("x", 3, 2)
			remade := kinds(p.events("x"), "job_remade")
			if len(remade) != 1 {
				t.Fatalf("job_remade: %v", remade)
			}
			until(t, "generation 3 says where it started", func() error {
				if from, ok := steps(a, b)[3]; !ok {
					return fmt.Errorf("it says nothing yet")
				} else if from < newest {
					t.Errorf("step %d was committed, and the job goes on from step %d", newest, from)
				}
				return nil
			})
			until(t, "it commits again", func() error {
				for _, e := range kinds(p.events("x"), "checkpoint_committed") {
					if e.Generation >= 3 {
						return nil
					}
				}
				return fmt.Errorf("not yet")
			})
			p.must("stop", "x")
			p.ends(a, 93)
			p.ends(b, 93)
		})
	}
}
