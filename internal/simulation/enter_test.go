package simulation

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// The error of a refused node names the real reason, and the server only if that was the reason.
func TestWhatKeptItOut(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *sim)
		cut    bool
		sweep  error
		why    string
		server bool
	}{
		"the server": {cut: true, server: true},
		"what an earlier agent left": {sweep: errors.New("process 7 does not end"),
			why: "end what an earlier agent left: process 7 does not end"},
		"its name, which no process holds": {before: registered,
			why: "node a is registered at elsewhere:1 and does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "1", 1)
				if c.before != nil {
					c.before(s)
				}
				a := s.makeAgent("a")
				a.cfg.ConnectTimeout, a.cfg.NodeGiven = 5*time.Second, true
				a.sweep = c.sweep
				a.client.Cut(c.cut)
				s.run(a)
				<-a.done
				if a.result.Status != 124 {
					t.Fatalf("it ended with %+v\n%s", a.result, s.story())
				}
				if got := problem.Is(a.result.Err, problem.Server); got != c.server {
					t.Errorf("that it was the server: %v; it says %q", got, a.result.Err)
				}
				p, ok := errors.AsType[*problem.Error](a.result.Err)
				if !ok || !c.server && (p.Message != "this node did not get into the job within 5s" || p.Why != c.why) {
					t.Errorf("it says %+v, want %q", a.result.Err, c.why)
				}
			})
		})
	}
}

// A killed agent holds the lock of its node until the kernel has written its files. Its successor
// waits for the lock, and is refused only if the agent lives.
func TestTheLockOfADyingAgentIsWaitedFor(t *testing.T) {
	for name, dies := range map[string]bool{"it dies": true, "it lives": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "1", 1)
				before := s.makeAgent("a")
				if _, err := before.disk.Lock("a"); err != nil {
					t.Fatal(err)
				}
				a := s.makeAgent("a")
				a.cfg.NodeGiven = true
				s.run(a)
				if dies {
					time.Sleep(time.Second)
					before.process.Kill()
					s.until("it is in", time.Second, s.running(1, 1))
					s.finish()
					return
				}
				<-a.done
				if !problem.Is(a.result.Err, problem.NodeName) || a.result.Status != 1 {
					t.Errorf("it ended with %+v\n%s", a.result, s.story())
				}
			})
		})
	}
}

// registered registers node a on another host, without an agent that answers.
func registered(s *sim) {
	x := s.start("x")
	s.until("x is here", 5*time.Second, s.running(1, 1))
	snap := s.snapshot()
	n := *snap.Node("x")
	x.kill()
	n.Node, n.Host, n.Incarnation, n.Address = "a", "elsewhere", "a0", "elsewhere:1"
	s.empty[n.Address] = true
	if _, err := s.etcd.Client("elsewhere").
		Txn(context.Background(), store.Txn{Then: []store.Write{store.Put(s.job.Name.Node("a"),
			schema.Encode(n))}}); err != nil {
		s.t.Fatal(err)
	}
}

// A node that cannot join exits at the first signal.
func TestRefusedNodeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := threeRun(t, "2:3")
		time.Sleep(5 * time.Second)
		s.mu.Lock()
		c.cut = true
		s.mu.Unlock()
		s.until("c is dropped", 60*time.Second,
			func(x rendezvous.Snapshot) bool { return x.Node("c") == nil })
		time.Sleep(10 * time.Second)
		c.signals <- syscall.SIGTERM
		time.Sleep(5 * time.Second)
		if !c.isDead() {
			t.Errorf("it is still here\n%s", s.story())
		} else if c.result.Status != 75 {
			t.Errorf("it ended with %+v", c.result)
		}
		s.finish()
	})
}

// The first nodes that a returning node asks may all be dead, and registered until their leases
// end. It then asks others.
func TestReturningNodeAsksOthersThanTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2", 1)
		s.form("x", "y")
		var dead []*simAgent
		for _, name := range []string{"a", "b", "c"} {
			a := s.makeAgent(name)
			a.cfg.LeaseTTL = time.Hour
			s.run(a)
			dead = append(dead, a)
		}
		w := s.start("w")
		s.until("all are here", 5*time.Second, func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 6 })
		for _, a := range dead {
			a.freeze()
		}
		s.mu.Lock()
		s.empty[w.address] = true
		w.address += "+"
		s.mu.Unlock()
		w.client.Cut(true)
		time.Sleep(1500 * time.Millisecond)
		w.client.Cut(false)
		s.until("w is back", 15*time.Second, func(x rendezvous.Snapshot) bool {
			n := x.Node("w")
			return n != nil && n.Address == w.address
		})
		s.finish()
	})
}
