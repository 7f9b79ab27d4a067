package simulation

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// An agent whose context ends still receives the exits of its workers, and so ends itself.
func TestTheEndOfItsContextEndsAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // a lost answer depends on chance
			s := newSim(t, "1", 1)
			a := s.form("a")[0]
			a.stop()
			time.Sleep(5 * time.Second)
			select {
			case <-a.done:
			default:
				t.Fatalf("it goes on\n%s", s.story())
			}
			if a.result.Status != 143 || !a.groups[0].ended {
				t.Errorf("it ended with %d; its workers ended: %v", a.result.Status, a.groups[0].ended)
			}
			s.finish()
		}
	})
}

// threeRun is a job that trains on a, b and c.
func threeRun(t *testing.T, np string) (s *sim, c *simAgent) {
	t.Helper()
	s = newSim(t, np, 1)
	c = s.form("a", "b", "c")[2]
	return s, c
}

// A node that does not reach the store, but a peer, ends the workers of a replaced generation.
func TestNewerGenerationStopsTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := threeRun(t, "3")
		c.client.Cut(true)
		s.scale(2) // c must leave, and cannot read that
		s.until("the others have a generation without it", 30*time.Second,
			func(x rendezvous.Snapshot) bool { return x.World.Generation == 2 })
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		if !c.groups[0].ended {
			s.wrongf("c heard of generation 2, and runs generation 1")
		}
		s.mu.Unlock()
		c.client.Cut(false)
		s.until("generation 2 runs", 30*time.Second, s.running(2, 2))
		s.finish()
	})
}

// A machine that returns to the network with another address joins again at that address, whether
// its loss was reported or not, and even if it returned before it missed the store.
func TestANodeThatMovedJoinsAtItsNewAddress(t *testing.T) {
	for _, away := range []time.Duration{0, 2 * time.Second, 6 * time.Second, 40 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := threeRun(t, "3")
				c.client.Cut(true)
				s.mu.Lock()
				s.empty[c.address] = true
				c.cut, c.address = true, "c-moved:1"
				s.mu.Unlock()
				time.Sleep(away)
				s.mu.Lock()
				c.cut = false
				s.mu.Unlock()
				c.client.Cut(false)
				s.until("a world runs with its new address", 30*time.Second,
					func(x rendezvous.Snapshot) bool {
						return s.running(0, 3)(x) &&
							slices.ContainsFunc(x.World.Members,
								func(r membership.Ref) bool { return r.Address == "c-moved:1" })
					})
				s.finish()
			})
		})
	}
}

// The store loses all leases, and a node loses its connections to the others. Suspicions of its
// watchers expired with their leases, or were written too late. They are written again, also if the
// node itself reaches the store.
func TestSuspicionsOutliveLeases(t *testing.T) {
	for name, before := range map[string]time.Duration{"written": 1300 * time.Millisecond,
		"on its way": -time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := threeRun(t, "2:3")
				time.AfterFunc(5*time.Second-before, func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					c.cut = true
				})
				time.Sleep(5 * time.Second)
				s.etcd.Freeze()
				time.Sleep(6 * time.Second)
				s.etcd.Thaw()
				s.until("it goes on without c (G6)", 25*time.Second, s.running(2, 2))
				s.finish()
			})
		})
	}
}

// The next incarnation of a node still suspects the nodes that were silent before. The watchers
// need not find that again, and do not report it again.
func TestNextIncarnationKeepsSuspicions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2:3", 1)
		nodes := s.form("a", "b", "c")
		a, c := nodes[0], nodes[2]
		time.Sleep(5 * time.Second)
		s.mu.Lock()
		c.cut = true
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		s.empty[a.address] = true // a has another address now, and joins again
		a.address += "+"
		s.mu.Unlock()
		a.client.Cut(true)
		time.Sleep(1500 * time.Millisecond)
		a.client.Cut(false)
		s.until("it goes on without c (G6)", 25*time.Second, s.running(3, 2))
		s.finish()
	})
}

// A node that follows only its own keys, and suspected another for a moment, follows everything
// until its record is gone. So a suspicion does not remain in the store that was withdrawn at once,
// or that its writer forgot when it stood still.
func TestAShortSuspicionDoesNotStay(t *testing.T) {
	for cut := 900 * time.Millisecond; cut <= 1400*time.Millisecond; cut += 50 * time.Millisecond {
		for _, stands := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stands still: %v", cut, stands), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, "10", uint64(cut))
					s.form(letters(10)...)
					time.Sleep(5 * time.Second)
					members := s.snapshot().World.Members
					about, by := members[5].Node, members[6].Node
					set := func(apart func(a, b string) bool) {
						s.mu.Lock()
						defer s.mu.Unlock()
						s.apart = apart
					}
					set(func(a, b string) bool { return a == about && b == by })
					time.Sleep(cut)
					var writer *simAgent
					for _, a := range s.agents {
						if a.node == by {
							writer = a
						}
					}
					if stands {
						writer.freeze()
						time.Sleep(1200 * time.Millisecond)
					}
					set(nil)
					if stands {
						writer.thaw()
					}
					time.Sleep(3 * time.Second)
					if x := s.snapshot(); len(x.Suspects) > 0 {
						t.Errorf("in doubt: %+v\n%s", x.Suspects, s.story())
					}
					s.finish()
				})
			})
		}
	}
}
