package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// told is a teller to whom the lines of a story were told.
func told(t *testing.T, lines ...string) *teller {
	t.Helper()
	w := newTeller()
	for _, l := range lines {
		if err := w.line(l); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	w.transcript()
	return w
}

// A request may be answered after the life that asked is over: the next one hears nothing of it.
func TestAnswersOfAnEarlierLifeAreNotHeard(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "c joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start",
		"proposed 2: b c", "workers gone", "ok close", "after 1s", "enters")
	if !w.m.is("a2") {
		t.Fatalf("it is %v, not in its second life", w.m.me)
	}
	w.m.Decide(Left{As: "a1"}, w.now)
	if !w.m.is("a2") {
		t.Error("that the first life left ends the second")
	}
	lease, rev := w.m.me.Lease, w.m.me.Rev
	done := w.m.Decide(Registered{As: "a1", Lease: 99, Rev: 98, TTL: time.Second}, w.now)
	if w.m.me.Lease != lease || w.m.me.Rev != rev {
		t.Error("the registration of the first life is taken for that of the second")
	}
	if !slices.Contains(done, Action(Forget{store.Lease(99)})) {
		t.Errorf("nobody gives the lease of the first life back: %v", done)
	}
	if slices.ContainsFunc(done, func(a Action) bool { _, ok := a.(Renew); return ok }) {
		t.Error("the lease of the first life is renewed")
	}
}

// What was asked for a job that the store has lost since may be answered when nothing of the next one is known.
func TestAnAnswerOfALostJob(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "ok step", "b ready")
	job := w.job
	job.UID, job.Succeeds = "another", w.job.UID
	w.m.drop(&actions{})
	w.m.anew(job)
	w.m.Decide(Readied{Generation: 1, Begun: w.now}, w.now)
	if w.m.world != nil {
		t.Errorf("it knows world %+v", w.m.world)
	}
}

// An agent whose context ends hears how its workers end, and so ends itself.
func TestTheEndOfItsContextEndsAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // an answer that is dropped is dropped by chance
			s := newSim(t, "1", 1)
			a := s.start("a")
			s.until("generation 1 runs", 5*time.Second, s.running(1, 1))
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

// What prepared a generation that was overtaken is not waited for: it may fetch for hours.
func TestANewerGenerationEndsWhatPreparedTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(Config{}, Deps{})
		ctx, cancel := context.WithCancel(t.Context())
		l.sole(ctx, "ready", func(ctx context.Context) Event { <-ctx.Done(); return Readied{Generation: 1, Err: ctx.Err()} })
		l.sole(ctx, "ready", func(context.Context) Event { return Readied{Generation: 2} })
		synctest.Wait()
		for range 2 {
			select {
			case <-l.events:
			default:
				t.Error("one of them is still under way")
			}
		}
		cancel()
		l.effects.Wait()
	})
}

// Who follows its own keys only has no whole picture, also when the last one comes late.
func TestALateWholeSnapshotIsNotKept(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start")
	own := rendezvous.Own
	w.m.following, w.m.snap.Whole = &own, false
	w.m.nodes, w.m.world.Count, w.m.peekAt = 100, 100, w.now.Add(time.Hour)
	w.m.world.Members = append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")}, w.m.world.Members...)
	w.rev++
	w.see(w.copy(), false)
	if w.m.snap.Whole {
		t.Error("it plans by a picture that nothing makes newer")
	}
}

// What is known of those who are gone is forgotten with them.
func TestWhatIsRememberedDoesNotGrow(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start")
	for life := 2; life < 30; life++ {
		for _, l := range []string{"heard b closed", "ok suspect", "b expires", "after 5s", fmt.Sprintf("proposed %d: a", 2*life), "after 1s", "b joins", "after 1s",
			fmt.Sprintf("proposed %d: a b", 2*life+1), "after 1s"} {
			if err := w.line(l); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		}
	}
	m := w.m
	for what, n := range map[string]int{"absent": len(m.evidence.Absent), "answers": len(m.evidence.Answers), "again": len(m.again),
		"probed": len(m.probed), "suspected": len(m.mine), "written": len(m.written)} {
		if n > 5 {
			t.Errorf("%s: %d after 30 lives of b", what, n)
		}
	}
}

// A node that the store does not reach, but a peer does, ends the workers of a generation that was replaced.
func TestWhoHearsOfANewerGenerationStopsTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "3", 1)
		s.start("a")
		s.start("b")
		c := s.start("c")
		s.until("generation 1 runs", 5*time.Second, s.running(1, 3))
		c.client.Cut(true)
		s.scale(2) // c goes, and cannot read so
		s.until("the others have a generation without it", 30*time.Second, func(x rendezvous.Snapshot) bool { return x.World.Generation == 2 })
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		if !c.groups[0].ended {
			s.wrongf("c was told of generation 2, and runs generation 1")
		}
		s.mu.Unlock()
		c.client.Cut(false)
		s.until("generation 2 runs", 30*time.Second, s.running(2, 2))
		s.finish()
	})
}

// A machine that leaves its network and comes back with another address joins again with that one, whether
// its loss was told or not.
func TestANodeThatMovedJoinsAtItsNewAddress(t *testing.T) {
	for _, away := range []time.Duration{2 * time.Second, 6 * time.Second, 40 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "3", 1)
				s.start("a")
				s.start("b")
				c := s.start("c")
				s.until("generation 1 runs", 5*time.Second, s.running(1, 3))
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
				s.until("a world runs with its new address", 30*time.Second, func(x rendezvous.Snapshot) bool {
					return s.running(0, 3)(x) && slices.ContainsFunc(x.World.Members, func(r membership.Ref) bool { return r.Address == "c-moved:1" })
				})
				s.finish()
			})
		})
	}
}

// The store loses all leases, and a node its way to the others. What its watchers wrote of it went with their leases, or
// came too late: it is written again, also where the node itself finds the store.
func TestSuspicionsOutliveLeases(t *testing.T) {
	for name, before := range map[string]time.Duration{"written": 1300 * time.Millisecond, "on its way": -time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "2:3", 1)
				s.start("a")
				s.start("b")
				c := s.start("c")
				s.until("generation 1 runs", 5*time.Second, s.running(1, 3))
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

// Who comes back as another life still holds silent whom it found silent before: those who watch do not find it out
// again, and tell it again.
func TestTheNextLifeSuspectsWhomTheLastOneDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2:3", 1)
		a := s.start("a")
		s.start("b")
		c := s.start("c")
		s.until("generation 1 runs", 5*time.Second, s.running(1, 3))
		time.Sleep(5 * time.Second)
		s.mu.Lock()
		c.cut = true
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		s.empty[a.address] = true // a is somewhere else now, and joins anew
		a.address += "+"
		s.mu.Unlock()
		a.client.Cut(true)
		time.Sleep(1500 * time.Millisecond)
		a.client.Cut(false)
		s.until("it goes on without c (G6)", 25*time.Second, s.running(3, 2))
		s.finish()
	})
}

// One node explains it until others accuse each other, of whom each was in doubt before: silence counts for nothing from
// then on, for a window.
func TestANewDoubtMakesACrowdOfWhomOneExplained(t *testing.T) {
	now := time.Now()
	m := NewMachine(Config{}, now)
	var members []membership.Ref
	var nodes []membership.Node
	for _, name := range []string{"a", "b", "c"} {
		r := membership.Ref{Node: name, Incarnation: membership.Incarnation(name)}
		members, nodes = append(members, r), append(nodes, membership.Node{Ref: r})
	}
	var suspects []membership.Suspicion
	for _, x := range []struct {
		by, about string
		void      bool
	}{{"c", "a", false}, {"c", "b", false}, {"a", "c", false}, {"b", "c", false}, {"a", "b", true}} {
		suspects = append(suspects, membership.Suspicion{Node: x.about, Incarnation: membership.Incarnation(x.about), By: x.by, Watcher: membership.Incarnation(x.by)})
		m.view = membership.Judge(members, nodes, nil, suspects, m.evidence, m.limits, now)
		m.crowded(membership.Crowd(m.view, len(members)), now)
		if got := m.evidence.Void.After(now); got != x.void {
			t.Errorf("after %s suspected %s silence is void: %v, want %v", x.by, x.about, got, x.void)
		}
	}
}

// Who follows its own keys only, and suspected somebody for a moment, follows everything until it sees its record gone: a
// suspicion that was taken back at once, or before its writer stood still and forgot it, does not stay.
func TestAShortSuspicionDoesNotStay(t *testing.T) {
	for cut := 900 * time.Millisecond; cut <= 1400*time.Millisecond; cut += 50 * time.Millisecond {
		for _, stands := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stands still: %v", cut, stands), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, "10", uint64(cut))
					for i := range 10 {
						s.start(string(rune('a' + i)))
					}
					s.until("generation 1 runs", 5*time.Second, s.running(1, 10))
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

// It follows everything for as long as its record may be there, and no longer.
func TestWhoOwesNothingFollowsItsOwn(t *testing.T) {
	w := told(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read", "ok start", "heard b silent", "ok suspect", "heard b again")
	m := w.m
	m.nodes, m.world.Members = 100, append([]membership.Ref{w.ref("c"), w.ref("d"), w.ref("e")}, m.world.Members...)
	scope := func() rendezvous.Scope {
		m.follow(w.now, &actions{})
		return *m.following
	}
	m.peekAt = w.now.Add(time.Hour)
	if len(m.mine) > 0 || len(m.written) > 0 || len(m.snap.Suspects) != 1 || scope() != rendezvous.All {
		t.Errorf("its record is in the store, %v, and it does not look there", m.snap.Suspects)
	}
	m.snap.Suspects, m.snap.Rev = nil, m.wrote-1
	if scope() != rendezvous.All {
		t.Error("an older picture, without the record, is taken for the end of it")
	}
	m.snap.Rev = m.wrote
	if scope() != rendezvous.Own {
		t.Error("its record is gone, and it goes on following everything")
	}
}
