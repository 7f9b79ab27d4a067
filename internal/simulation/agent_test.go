package simulation

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

func TestTwoJoinOneIsKilledAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2", 1)
		b := s.form("a", "b")[1]
		b.kill()
		s.until("the survivor waits", 2*time.Second,
			func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
		s.start("b")
		s.until("generation 2 runs", 5*time.Second, s.running(2, 2))
		s.finish()
		t.Log("\n" + s.story())
	})
}

// A frozen node of three is found by its two watchers, and one of two by its watcher and the store,
// long before the time in which an absent node may register again.
func TestSilentNodeIsReplacedInSeconds(t *testing.T) {
	for np, limit := range map[string]time.Duration{"2": 3 * time.Second, "3": 3 * time.Second,
		"4": 3 * time.Second} {
		t.Run(np, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, np, 1)
				n := int(np[0] - '0')
				last := s.form(letters(n)...)[n-1]
				time.Sleep(20 * time.Second)
				last.freeze()
				s.until("the survivors wait", limit,
					func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
				time.Sleep(10 * time.Second)
				last.thaw()
				s.until("generation 2 runs", 5*time.Second, s.running(2, n))
				s.finish()
			})
		})
	}
}

// A node that is cut off from all others, but not from the store, suspects the nodes that it
// watches, while its watchers suspect it. This counts as one loss, found in seconds, whichever rank
// the node has. The others stay.
func TestANodeCutFromItsPeersIsReplacedInSeconds(t *testing.T) {
	for _, n := range []int{3, 4, 5, 10} {
		for rank := range n {
			t.Run(fmt.Sprintf("rank %d of %d", rank, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, fmt.Sprintf("2:%d", n), uint64(rank))
					s.form(letters(n)...)
					time.Sleep(20 * time.Second)
					off := s.snapshot().World.Members[rank].Node
					set := func(cut bool) {
						s.mu.Lock()
						defer s.mu.Unlock()
						for _, a := range s.agents {
							a.cut = cut && a.node == off
						}
					}
					set(true)
					s.until("the others have a generation without it", 3*time.Second,
						func(x rendezvous.Snapshot) bool {
							w := x.World
							return w.Generation == 2 && w.Count == n-1 && !slices.ContainsFunc(w.Members,
								func(r membership.Ref) bool { return r.Node == off })
						})
					s.until("that runs", 5*time.Second, s.running(2, n-1))
					time.Sleep(20 * time.Second)
					set(false)
					s.until("all of them run again", 20*time.Second, s.running(0, n))
					s.until("no node is suspected", 5*time.Second,
						func(x rendezvous.Snapshot) bool { return len(x.Suspects) == 0 })
					if lost := s.snapshot().World.Ledger.Lost; lost != 1 {
						t.Errorf("%d were lost, one was cut off\n%s", lost, s.story())
					}
					s.finish()
				})
			})
		}
	}
}

// Two nodes do not reach each other, or two do not reach the rest, for less than the window. Each
// suspects the nodes that it watches. The store reaches all of them, so none is lost.
func TestCutsInsideAreNoLoss(t *testing.T) {
	for name, cut := range map[string]struct {
		least int // nodes
		apart func(a, b string) bool
	}{
		"neighbours":    {2, func(a, b string) bool { return a+b == "ab" }},
		"next but one":  {3, func(a, b string) bool { return a+b == "ac" }},
		"two from rest": {4, func(a, b string) bool { return a <= "b" && b > "b" }},
		"all from all":  {2, func(a, b string) bool { return a != b }},
	} {
		for n := cut.least; n <= 5; n++ {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, fmt.Sprintf("1:%d", n), 1)
					s.form(letters(n)...)
					time.Sleep(20 * time.Second)
					set := func(apart func(a, b string) bool) {
						s.mu.Lock()
						defer s.mu.Unlock()
						s.apart = apart
					}
					set(cut.apart)
					time.Sleep(9 * time.Second)
					set(nil)
					time.Sleep(20 * time.Second)
					if x := s.snapshot(); !s.running(1, n)(x) || len(x.Suspects) > 0 {
						t.Errorf("generation %d is %s, in doubt: %v\n%s",
							x.World.Generation, x.World.Phase, x.Suspects, s.story())
					}
					s.finish()
				})
			})
		}
	}
}

// Two machines are switched off at once, so dials to them are not refused. The two remaining nodes,
// members or a spare, reach each other, and neither takes itself for the one that is cut off.
func TestTwoSilentNodesAreReplaced(t *testing.T) {
	for np, n := range map[string]int{"2:4": 4, "2:3": 3} {
		t.Run(np, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, np, 1)
				for _, name := range []string{"a", "b", "c", "d"} {
					s.start(name)
				}
				s.until("generation 1 runs", 5*time.Second, s.running(1, n))
				time.Sleep(5 * time.Second)
				off := s.snapshot().World.Members[n-2:]
				for _, a := range s.agents {
					if a.node == off[0].Node || a.node == off[1].Node {
						a.freeze()
					}
				}
				s.until("it goes on without them (G6)", 25*time.Second, s.running(2, 2))
				s.finish()
			})
		})
	}
}

// A node that was lost with another stays lost while its job waits for more nodes. Dialling it
// again is no new doubt, so new nodes do not wait for a verdict.
func TestReplacementsOfTwoAreNotWaitedFor(t *testing.T) {
	for late := range 12 {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, "3", 1)
			nodes := s.form("a", "b", "c")
			b, c := nodes[1], nodes[2]
			time.Sleep(5 * time.Second)
			b.freeze()
			c.freeze()
			s.until("a waits", 25*time.Second,
				func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
			time.Sleep(time.Duration(20+late) * time.Second)
			s.start("d")
			s.start("e")
			s.until("it goes on with d and e", 2*time.Second, s.running(2, 3))
			s.finish()
		})
	}
}

// A node saves or hands over without end. The second signal ends it.
func TestSecondSignalWaitsForNoSave(t *testing.T) {
	for name, stick := range map[string]func(a *simAgent){
		"close":     func(a *simAgent) { a.stuck.close = true },
		"hand over": func(a *simAgent) { a.stuck.handOver = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "2", 1)
				a := s.form("a", "b")[0]
				stick(a)
				a.signals <- syscall.SIGTERM
				time.Sleep(5 * time.Second)
				select {
				case <-a.done:
					t.Error("the first signal did not wait for the save")
				default:
				}
				a.signals <- syscall.SIGTERM
				time.Sleep(2 * time.Second)
				select {
				case <-a.done:
					if a.result.Status != 143 {
						t.Errorf("it ended with %d, want 143", a.result.Status)
					}
				default:
					t.Errorf("the second signal is not honoured\n%s", s.story())
				}
				s.finish()
			})
		})
	}
}

// A killed spare is reported lost once, by any of the planners, and no World changes. A frozen
// spare joins as another incarnation when it thaws.
func TestLostSpareIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "3", 1)
		s.form("a", "b", "c")
		killed, frozen, left := s.start("d"), s.start("e"), s.start("f")
		s.until("there are spares", 5*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Nodes) == 6 })
		killed.kill()
		frozen.freeze()
		left.signals <- syscall.SIGTERM
		s.until("two losses are reported", 15*time.Second,
			func(x rendezvous.Snapshot) bool { return len(x.Missed) == 2 })
		time.Sleep(20 * time.Second)
		frozen.thaw()
		s.until("it is back", 5*time.Second, func(x rendezvous.Snapshot) bool { return x.Node("e") != nil })
		time.Sleep(20 * time.Second)
		reported := 0
		for _, e := range s.entries(s.job.Name.Events()) {
			reported += s.lost(&e)
		}
		if x := s.snapshot(); reported != 2 || len(x.Missed) != 2 || !s.running(1, 3)(x) {
			t.Errorf("%d are reported lost, of %v, and generation %d is %s",
				reported, x.Missed, x.World.Generation, x.World.Phase)
		}
		s.finish()
	})
}
