package membership

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHoldsOnlyWhatIsCountedAnewAfterAStall(t *testing.T) {
	w := NewWatcher(nil, DefaultBeats(), make(chan Signal))
	n := &watched{ref: nodeA}
	now := time.Now()
	for i, s := range []struct {
		event
		wait  time.Duration
		holds bool
	}{
		{event{kind: begun}, 0, false},
		{event{kind: ticked}, time.Second, true},
		{event{kind: stalled}, 5 * time.Second, false},
		{event{kind: ticked}, 250 * ms, false},
		{event{kind: ticked}, 750 * ms, true},
		{event{kind: answered}, ms, false},
	} {
		now = now.Add(s.wait)
		n.observe(s.event, now, w.beats)
		w.publish(n)
		if w.Holds(nodeA) != s.holds {
			t.Errorf("step %d: holds %v", i, !s.holds)
		}
	}
	if next := (Ref{Node: "a", Incarnation: "a2"}); w.Holds(next) {
		t.Error("holds it against the next life")
	}
}

func TestWatcherSeesKilledAtOnce(t *testing.T) {
	watching(t, []Ref{nodeA, nodeB}, func(t *testing.T, net *world, w *Watcher) {
		start := time.Now()
		net.kill(nodeB)
		s := next(t, w)
		if s.Ref != nodeB || s.Sign != ConnectionClosed || s.Answer.Kind != Refused {
			t.Errorf("signal %+v", s)
		}
		if time.Since(start) >= 100*ms {
			t.Errorf("after %s", time.Since(start))
		}
		if !w.Holds(nodeB) || w.Holds(nodeA) {
			t.Error("holds what it should not, or not what it should")
		}
		time.Sleep(time.Minute)
		silence(t, w)
	})
}

func TestWatcherSeesSilenceInTime(t *testing.T) {
	for phase := time.Duration(0); phase < 250*ms; phase += 10 * ms {
		watching(t, []Ref{nodeA, nodeB}, func(t *testing.T, net *world, w *Watcher) {
			time.Sleep(phase)
			start := time.Now()
			net.freeze(nodeA)
			s := next(t, w)
			if s.Ref != nodeA || s.Sign != Silent || s.Silent < 600*ms {
				t.Errorf("signal %+v", s)
			}
			if d := time.Since(start); d > 600*ms {
				t.Errorf("phase %s: after %s", phase, d)
			}
			time.Sleep(10 * time.Second)
			silence(t, w)
			if !w.Holds(nodeA) {
				t.Error("forgot it")
			}

			start = time.Now()
			net.thaw(nodeA)
			if s := next(t, w); s.Ref != nodeA || !s.Cleared() {
				t.Errorf("signal %+v", s)
			}
			if d := time.Since(start); d > 250*ms || w.Holds(nodeA) {
				t.Errorf("cleared after %s, holds %v", d, w.Holds(nodeA))
			}
			time.Sleep(10 * time.Second)
			silence(t, w)
		})
	}
}

// A node that stands still before its first answer is found as soon as any other, if the others
// answer promptly. It gets more time if they do not, or if no other node is known for long.
func TestWatcherExpectsAFirstAnswerAsOthersGiveIt(t *testing.T) {
	for name, c := range map[string]struct {
		dial  time.Duration // what the first answer of another node took; negative: there is none
		pause time.Duration // of that node, once
		waits time.Duration
	}{
		"another one is prompt":     {0, 0, 600 * ms},
		"another one pauses":        {0, 500 * ms, 750 * ms},
		"another one pauses longer": {0, 1500 * ms, time.Second},
		"its dial took long":        {500 * ms, 0, 750 * ms},
		"there is no other one":     {-1, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, nil, func(t *testing.T, net *world, w *Watcher) {
				var known []Ref
				if c.dial >= 0 {
					known = []Ref{nodeA}
					net.change(nodeA, func(h *host) { h.full = true }, false)
					w.Set(known)
					time.Sleep(c.dial)
					net.change(nodeA, func(h *host) { h.full = false }, false)
				}
				time.Sleep(5*time.Second + 10*ms)
				if c.pause > 0 {
					net.freeze(nodeA)
					time.Sleep(c.pause)
					net.thaw(nodeA)
					time.Sleep(time.Second)
				}
				net.freeze(nodeB)
				start := time.Now()
				w.Set(append(known, nodeB))
				s := next(t, w)
				for s.Ref == nodeA { // its pause was a sign, and it answered again
					s = next(t, w)
				}
				if s.Ref != nodeB || s.Sign != Silent || !s.Never || s.Silent < c.waits {
					t.Errorf("signal %+v", s)
				}
				if d := time.Since(start); d > c.waits+100*ms {
					t.Errorf("after %s, want %s", d, c.waits)
				}
			})
		})
	}
}

// If all nodes are watched from the same time on, the prompt answer of one says nothing about the
// others.
func TestWatcherExpectsNothingWhereAllBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWorld(nodeA, nodeB)
		net.freeze(nodeB)
		ctx, cancel := context.WithCancel(t.Context())
		w := NewWatcher(net, DefaultBeats(), make(chan Signal))
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		w.Set([]Ref{nodeA, nodeB})
		if s := next(t, w); s.Ref != nodeB || s.Silent < time.Second {
			t.Errorf("signal %+v", s)
		}
		cancel()
		run.Wait()
	})
}

func TestWatcherIgnoresShortFreeze(t *testing.T) {
	watching(t, []Ref{nodeA}, func(t *testing.T, net *world, w *Watcher) {
		for range 20 {
			net.freeze(nodeA)
			time.Sleep(330 * ms)
			net.thaw(nodeA)
			time.Sleep(130 * ms)
		}
		silence(t, w)
	})
}

// A node that stands still for half a second now and then is suspected the first time. It is not
// suspected again until its pauses are forgotten.
func TestWatcherLearnsHowLongANodePauses(t *testing.T) {
	watching(t, []Ref{nodeA}, func(t *testing.T, net *world, w *Watcher) {
		pause := func() {
			time.Sleep(10*time.Second - time.Duration(time.Now().UnixNano()%int64(10*time.Second)) + 240*ms)
			net.freeze(nodeA)
			time.Sleep(500 * ms)
			net.thaw(nodeA)
		}
		go pause()
		if s := next(t, w); s.Sign != Silent {
			t.Errorf("signal %+v", s)
		}
		if s := next(t, w); !s.Cleared() {
			t.Errorf("signal %+v", s)
		}
		for range 100 {
			pause()
			silence(t, w)
		}
		start := time.Now()
		net.freeze(nodeA)
		if s := next(t, w); s.Sign != Silent || time.Since(start) > 1300*ms {
			t.Errorf("signal %+v after %s", s, time.Since(start))
		}
	})
}

func TestWatcherHearsLateAnswersOnTheOldLine(t *testing.T) {
	watching(t, []Ref{nodeA}, func(t *testing.T, net *world, w *Watcher) {
		for range 5 {
			net.change(nodeA, func(h *host) { h.frozen, h.full = true, true }, false)
			// the dial fails
			time.Sleep(time.Duration(510)*ms - time.Duration(time.Now().UnixNano()%int64(250*ms)))
			net.thaw(nodeA)
			time.Sleep(10 * time.Second)
			silence(t, w)
		}
		_, before := net.count("a")
		time.Sleep(10 * time.Second)
		if _, beats := net.count("a"); beats-before < 39 || beats-before > 41 {
			t.Errorf("%d beats in ten seconds", beats-before)
		}
		net.reset(nodeA)
		if s := next(t, w); s.Sign != Silent {
			t.Errorf("signal %+v", s)
		}
		net.change(nodeA, func(h *host) { h.full = false }, false)
		if s := next(t, w); !s.Cleared() {
			t.Errorf("signal %+v", s)
		}
	})
}

func TestWatcherReconnectsQuietly(t *testing.T) {
	watching(t, []Ref{nodeA}, func(t *testing.T, net *world, w *Watcher) {
		before, _ := net.count("a")
		net.reset(nodeA)
		time.Sleep(time.Second)
		silence(t, w)
		if dials, _ := net.count("a"); dials-before != 1 {
			t.Errorf("%d dials for one reset", dials-before)
		}
		// One that breaks every connection at once costs a dial a beat, not a busy loop.
		before, _ = net.count("a")
		for range 1000 {
			net.reset(nodeA)
			time.Sleep(10 * ms)
		}
		silence(t, w)
		if dials, _ := net.count("a"); dials-before > 100 {
			t.Errorf("%d dials in ten seconds of resets", dials-before)
		}
	})
}

func TestWatcherSeesAnotherLife(t *testing.T) {
	watching(t, []Ref{nodeA}, func(t *testing.T, net *world, w *Watcher) {
		net.change(nodeA, func(h *host) { h.ref.Incarnation = "a2" }, true)
		s := next(t, w)
		if s.Sign != ConnectionClosed || s.Answer.Kind != Other || s.Answer.Incarnation != "a2" {
			t.Errorf("signal %+v", s)
		}
	})
}

func TestWatcherSetMovesOn(t *testing.T) {
	watching(t, []Ref{nodeA, nodeB}, func(t *testing.T, net *world, w *Watcher) {
		before, _ := net.count("b")
		net.freeze(nodeA)
		next(t, w)
		refs := []Ref{nodeB, nodeC}
		w.Set(refs)
		refs[0] = nodeA // the slice is the caller's
		time.Sleep(10 * time.Second)
		silence(t, w)
		if w.Holds(nodeA) {
			t.Error("holds something against a node that it does not watch")
		}
		if dials, _ := net.count("b"); dials != before {
			t.Error("a node that stays was dialled again")
		}
		net.kill(nodeC)
		if s := next(t, w); s.Ref != nodeC {
			t.Errorf("signal %+v", s)
		}
		w.Set(nil)
		time.Sleep(time.Second)
		_, beats := net.count("b")
		time.Sleep(time.Minute)
		if _, now := net.count("b"); now != beats {
			t.Error("still sends beats that no watcher wants")
		}
	})
}

// A caller that sets the same nodes again gets the held signals again, and nothing more.
func TestWatcherSignalsAgainWhenSetAgain(t *testing.T) {
	watching(t, []Ref{nodeA, nodeB, nodeC}, func(t *testing.T, net *world, w *Watcher) {
		net.freeze(nodeA)
		net.kill(nodeB)
		refused, silent := next(t, w), next(t, w)
		time.Sleep(10 * time.Second)
		silence(t, w)
		w.Set([]Ref{nodeC, nodeB, nodeA})
		again := map[string]Signal{}
		for range 2 {
			s := next(t, w)
			again[s.Node] = s
		}
		if a := again["a"]; a.Sign != Silent || a.Never || a.Silent < silent.Silent+10*time.Second {
			t.Errorf("signals %+v, before %+v", a, silent)
		}
		if b := again["b"]; b.Sign != ConnectionClosed || b.Answer != refused.Answer {
			t.Errorf("signals %+v, before %+v", b, refused)
		}
		silence(t, w)
	})
}

func TestWatcherIsCheap(t *testing.T) {
	watching(t, []Ref{nodeA, nodeB}, func(t *testing.T, net *world, w *Watcher) {
		_, before := net.count("a")
		woken := w.woken.Load()
		time.Sleep(10 * time.Minute)
		if dials, beats := net.count("a"); dials != 1 || beats-before < 2399 || beats-before > 2401 {
			t.Errorf("%d dials, %d beats in ten minutes", dials, beats-before)
		}
		if n := w.woken.Load() - woken; n > 2401 {
			t.Errorf("woken %d times: 2400 ticks, and answers of nodes that are well", n)
		}
	})
}

func TestWatcherOutlivesSlowReader(t *testing.T) {
	watching(t, []Ref{nodeA, nodeB}, func(t *testing.T, net *world, w *Watcher) {
		net.freeze(nodeA)
		time.Sleep(5 * time.Second)
		net.thaw(nodeA)
		time.Sleep(5 * time.Second)
		net.kill(nodeB)
		time.Sleep(time.Hour)
		if !w.Holds(nodeB) || w.Holds(nodeA) {
			t.Error("stopped watching while its signals were not read")
		}
		var got []string
		for range 3 {
			s := next(t, w)
			got = append(got, s.Node+" "+string(s.Sign))
		}
		if want := []string{"a silent", "a ", "b connection-closed"}; !cmp.Equal(got, want) {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}
