package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

var (
	nodeA = Ref{Node: "a", Incarnation: "a1", Address: "10.0.0.1:1"}
	nodeB = Ref{Node: "b", Incarnation: "b1", Address: "10.0.0.2:1"}
	nodeC = Ref{Node: "c", Incarnation: "c1", Address: "10.0.0.3:1"}
)

func TestWatches(t *testing.T) {
	nodeD := Ref{Node: "d", Incarnation: "d1", Address: "10.0.0.4:1"}
	ring, four := []Ref{nodeA, nodeB, nodeC}, []Ref{nodeA, nodeB, nodeC, nodeD}
	for _, c := range []struct {
		name    string
		ring    []Ref
		me      Ref
		refused []Ref
		want    []Ref
	}{
		{"the two before", ring, nodeC, nil, []Ref{nodeB, nodeA}},
		{"around the ring", ring, nodeA, nil, []Ref{nodeC, nodeB}},
		{"one other", ring[:2], nodeA, nil, []Ref{nodeB}},
		{"alone", ring[:1], nodeA, nil, nil},
		{"another life of mine is there", ring, Ref{Node: "a", Incarnation: "a2"}, nil, nil},
		{"behind one that refused", four, nodeD, []Ref{nodeC}, []Ref{nodeC, nodeB, nodeA}},
		{"behind the second", four, nodeD, []Ref{nodeB}, []Ref{nodeC, nodeB, nodeA}},
		{"one further away refused", four, nodeD, []Ref{nodeA}, []Ref{nodeC, nodeB}},
		{"all refused", four, nodeD, []Ref{nodeA, nodeB, nodeC}, []Ref{nodeC, nodeB, nodeA}},
	} {
		if got := WatchTargets(c.ring, c.me, 2,
			func(r Ref) bool { return slices.Contains(c.refused, r) }); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEachNodeOfManyIsWatchedByTwo(t *testing.T) {
	ring := make([]Ref, 1000)
	for i := range ring {
		ring[i] = Ref{Node: fmt.Sprint(i), Incarnation: Incarnation(fmt.Sprint(i))}
	}
	in := map[Ref]int{}
	for _, me := range ring {
		out := WatchTargets(ring, me, 2, func(Ref) bool { return false })
		if len(out) != 2 || slices.Contains(out, me) {
			t.Fatalf("%s watches %v", me.Node, out)
		}
		in[out[0]]++
		in[out[1]]++
	}
	for _, r := range ring {
		if in[r] != 2 {
			t.Errorf("%s is watched by %d", r.Node, in[r])
		}
	}
}

// However many end at once, the two that come next on the ring find all of them.
func TestARowIsFound(t *testing.T) {
	ring := make([]Ref, 100)
	dead := map[Ref]bool{}
	for i := range ring {
		ring[i] = Ref{Node: fmt.Sprint(i), Incarnation: Incarnation(fmt.Sprint(i))}
		dead[ring[i]] = i >= 80 || i < 10
	}
	for _, next := range ring[10:12] {
		found, steps := map[Ref]bool{}, 0
		for before := -1; before != len(found); {
			before, steps = len(found), steps+1
			for _, r := range WatchTargets(ring, next, 2, func(r Ref) bool { return found[r] }) {
				if dead[r] {
					found[r] = true
				}
			}
		}
		if len(found) != 30 {
			t.Errorf("%s finds %d of 30", next.Node, len(found))
		}
		if steps > 7 {
			t.Errorf("%s needs %d steps for 30 nodes", next.Node, steps)
		}
	}
}

// TestObserve tells short stories to the pure core: an event at a moment, and what follows.
func TestObserve(t *testing.T) {
	type step struct {
		at   int // ms
		on   event
		want string
	}
	on := func(k kind) event { return event{kind: k} }
	ends := func(k AnswerKind) event { return event{kind: ended, answer: Answer{Kind: k}} }
	for name, story := range map[string][]step{
		"killed": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{300, ends(NoAnswer), "dial"}, {301, ends(Refused), "connection-closed refused 50"},
			{500, on(ticked), ""}, {1300, on(ticked), ""}, {1301, on(ticked), "dial"}, {1302, ends(Refused), ""},
		},
		"dead before it was watched": {{0, on(begun), "dial"}, {1, ends(Refused), "connection-closed refused 1"}},
		"a mere reset": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"}, {102, on(answered), ""},
			{250, on(ticked), "beat"},
		},
		"resets all the time": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"}, {102, on(answered), ""},
			{103, ends(NoAnswer), ""}, {250, on(ticked), "dial"}, {251, on(answered), ""},
			{400, ends(NoAnswer), "dial"},
		},
		"another life": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"},
			{102, ends(Other), "connection-closed other 100"},
		},
		"a stranger": {
			{0, on(begun), "dial"}, {2, ends(Stranger), "connection-closed stranger 2"},
		},
		"frozen and thawed": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{500, on(ticked), "beat"}, {750, on(ticked), "dial"}, {850, on(expired), ""},
			{851, on(expired), "silent no answer 600"}, {1000, on(ticked), ""}, {4000, ends(NoAnswer), ""},
			{4250, on(ticked), ""},
			{5000, on(ticked), "dial"}, {5250, on(ticked), ""}, {5600, on(answered), "cleared"},
			{5750, on(ticked), "beat"},
		},
		"the stream is dead, the node is not": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {500, on(ticked), "dial"},
			{510, on(answered), ""}, {750, on(ticked), "beat"}, {1000, on(ticked), "dial"}, {1010, on(answered), ""},
		},
		"a slow dial is no silence before its time": {
			{0, on(begun), "dial"}, {250, on(ticked), ""}, {500, on(ticked), ""}, {750, on(ticked), ""},
			{990, on(answered), ""}, {1000, on(ticked), "beat"},
		},
		"no route at once": { // a failed dial is no silence before its time, and needs no second one then
			{0, on(begun), "dial"}, {1, on(answered), ""}, {100, ends(NoAnswer), "dial"}, {101, ends(NoAnswer), ""},
			{250, on(ticked), "dial"}, {251, ends(NoAnswer), ""}, {500, on(ticked), "dial"}, {501, ends(NoAnswer), ""},
			{601, on(expired), "silent no answer 600"}, {750, on(ticked), "dial"}, {751, ends(NoAnswer), ""},
			{1500, on(ticked), ""}, {1751, on(ticked), "dial"},
		},
		"silent, then killed": {
			{0, on(begun), "dial"}, {500, on(ticked), ""}, {1000, on(ticked), "never heard, no answer 1000"},
			{1501, ends(Refused), "connection-closed refused 1501"},
		},
		"killed, then its host is off": {
			{0, on(begun), "dial"}, {1, ends(Refused), "connection-closed refused 1"}, {1001, on(ticked), "dial"},
			{2250, on(ticked), ""},
			{4001, ends(NoAnswer), ""}, {4250, on(ticked), ""}, {5250, on(ticked), "dial"},
			{5300, on(answered), "cleared"},
		},
		"I stalled on an open line": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {5000, on(stalled), ""},
			{5000, on(ticked), "beat"}, {5001, ends(NoAnswer), "dial"}, {5250, on(ticked), ""}, {5501, on(ticked), ""},
			{5600, on(expired), "silent no answer 600"},
		},
		"I stalled while dialling": {
			{0, on(begun), "dial"}, {5000, on(stalled), ""}, {5250, on(ticked), ""}, {5500, on(ticked), ""},
			{5750, on(ticked), ""},
			{6001, on(ticked), "never heard, no answer 1001"},
		},
		"I stalled between two dials": {
			{0, on(begun), "dial"}, {100, ends(NoAnswer), ""}, {5000, on(stalled), ""}, {6100, on(ticked), "dial"},
			{6250, on(ticked), ""}, {6500, on(ticked), "never heard, no answer 1500"},
		},
		"my own ticks come late": { // 400 ms of these 1.25 s I did not run
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{900, event{kind: starved, late: 400 * ms}, ""}, {900, on(ticked), "beat"}, {1150, on(ticked), "dial"},
			{1200, event{kind: starved, late: 400 * ms}, ""}, {1500, on(expired), ""}, {1600, on(ticked), ""},
			{1651, on(expired), "silent no answer 600"},
		},
		"late as they are, they make nobody younger": {
			{0, on(begun), "dial"}, {800, on(answered), ""}, {900, event{kind: starved, late: 900 * ms}, ""},
			{900, on(ticked), "beat"},
			{1270, on(ticked), "beat"}, {1280, on(ticked), "dial"},
		},
		"what I held before my stall I count anew": {
			{0, on(begun), "dial"}, {1000, on(ticked), "never heard, no answer 1000"}, {3000, ends(NoAnswer), ""},
			{4000, on(ticked), "dial"},
			{9000, on(stalled), "void"}, {9250, on(ticked), "void"}, {9750, on(ticked), "void"},
			{10000, on(ticked), "never heard, no answer 1000"},
		},
		"what I held before my stall was wrong": {
			{0, on(begun), "dial"}, {1, ends(Refused), "connection-closed refused 1"}, {5000, on(stalled), "void"},
			{5000, on(ticked), "dial void"}, {5001, on(answered), "cleared"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t0 := time.Now()
			n := &watched{ref: nodeA}
			for _, s := range story {
				o := n.observe(s.on, t0.Add(time.Duration(s.at)*ms), DefaultBeats())
				if got := tell(o, n); got != s.want {
					t.Fatalf("at %d ms: %q, want %q", s.at, got, s.want)
				}
			}
		})
	}
}

func tell(o orders, n *watched) string {
	var words []string
	if o.open {
		words = append(words, "dial")
	}
	if o.beat && !o.open && n.phase == up {
		words = append(words, "beat")
	}
	for _, s := range o.signals {
		if s.Cleared() {
			words = append(words, "cleared")
			continue
		}
		sign := string(s.Sign)
		if s.Never && s.Sign == Silent {
			sign = "never heard,"
		}
		words = append(words, fmt.Sprintf("%s %s %d", sign, s.Answer.Kind, s.Silent.Milliseconds()))
	}
	if n.void {
		words = append(words, "void")
	}
	line := ""
	for i, w := range words {
		if i > 0 {
			line += " "
		}
		line += w
	}
	return line
}

// TestObserveNeverAccusesWithoutEvidence runs random events against what a signal claims.
func TestObserveNeverAccusesWithoutEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := DefaultBeats()
		now := time.Now()
		n := &watched{ref: nodeA}
		n.observe(event{kind: begun}, now, b)
		since, dialled, live, failed := now, now, true, false
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * ms)
			e := event{kind: kind(rapid.IntRange(int(ticked), int(stalled)).Draw(t, "kind"))}
			if e.kind == ended {
				if !live {
					continue // nothing there that could end
				}
				if n.phase == dialling {
					e.answer.Kind = AnswerKind(rapid.SampledFrom([]AnswerKind{NoAnswer, NoAnswer, Refused, Other,
						Stranger}).Draw(t, "answer"))
				}
			}
			if e.kind == answered && !live {
				continue
			}
			if e.kind == starved {
				e.late = time.Duration(rapid.IntRange(0, 1000).Draw(t, "late")) * ms
			}
			wasUp, held, wait := n.phase == up, n.sign, n.wait(b)
			o := n.observe(e, now, b)
			switch e.kind {
			case answered:
				since, failed = now, false
			case stalled:
				since, failed = now, false
			case starved:
				since = earlier(since.Add(e.late), now)
			case ended:
				live = false
				failed = failed || !wasUp && e.answer.Kind == NoAnswer
			case ticked, expired:
				failed = failed || !wasUp && live && now.Sub(dialled) >= wait
			}
			if o.open {
				dialled, live = now, true
			}
			if o.beat && n.phase == down {
				t.Fatal("a beat without a line")
			}
			for _, s := range o.signals {
				switch {
				case s.Sign == Silent && (!failed || now.Sub(since) < b.Silence):
					t.Fatalf("silent after %s, dial failed: %v", now.Sub(since), failed)
				case s.Sign == ConnectionClosed && (e.kind != ended || e.answer.Kind == NoAnswer):
					t.Fatalf("closed after %+v", e)
				case s.Cleared() && (e.kind != answered || held == ""):
					t.Fatal("cleared without cause")
				}
			}
			if e.kind == answered && n.sign != "" {
				t.Fatal("it answered and is held a suspect")
			}
			if !live && n.next.Sub(now) > b.Retry {
				t.Fatal("given up")
			}
		}
	})
}

func TestHoldsOnlyWhatIsCountedAnewAfterAStall(t *testing.T) {
	w := NewWatcher(nil, DefaultBeats())
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

// world is a network of nodes that answer, freeze, die.
type world struct {
	mu    sync.Mutex
	hosts map[string]*host
	dials map[string]int
	beats map[string]int
}

type host struct {
	ref    Ref
	frozen bool
	dead   bool
	full   bool          // takes no new connections, as a host does whose queue is full
	moved  chan struct{} // closed and made anew when one of these changes
	reset  chan struct{} // closed and made anew when its connections break
}

func newWorld(refs ...Ref) *world {
	w := &world{hosts: map[string]*host{}, dials: map[string]int{}, beats: map[string]int{}}
	for _, r := range refs {
		w.hosts[r.Address] = &host{ref: r, moved: make(chan struct{}), reset: make(chan struct{})}
	}
	return w
}

func (w *world) change(r Ref, f func(h *host), breaks bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[r.Address]
	f(h)
	close(h.moved)
	h.moved = make(chan struct{})
	if breaks {
		close(h.reset)
		h.reset = make(chan struct{})
	}
}

func (w *world) kill(r Ref)   { w.change(r, func(h *host) { h.dead = true }, true) }
func (w *world) freeze(r Ref) { w.change(r, func(h *host) { h.frozen = true }, false) }
func (w *world) thaw(r Ref)   { w.change(r, func(h *host) { h.frozen = false }, false) }
func (w *world) reset(r Ref)  { w.change(r, func(*host) {}, true) }

// count returns how often a node was dialled, and how many beats it got.
func (w *world) count(node string) (dials, beats int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[node], w.beats[node]
}

func (w *world) look(r Ref) host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.hosts[r.Address]
}

func (w *world) Follow(ctx context.Context, to Ref, beats <-chan struct{}, heard func(Answer)) Answer {
	w.mu.Lock()
	w.dials[to.Node]++
	w.mu.Unlock()
	limit := time.After(3 * time.Second)
	for h := w.look(to); h.dead || h.frozen || h.full; h = w.look(to) {
		if h.dead {
			return Answer{Kind: Refused}
		}
		select {
		case <-h.moved:
		case <-limit:
			return Answer{}
		case <-ctx.Done():
			return Answer{}
		}
	}
	h := w.look(to)
	if !h.ref.Same(to) {
		return Answer{Kind: Other, Incarnation: h.ref.Incarnation}
	}
	a := Answer{Kind: Same, Incarnation: to.Incarnation}
	heard(a)
	for {
		select {
		case <-ctx.Done():
			return Answer{}
		case <-h.reset:
			return Answer{}
		case <-beats:
			w.mu.Lock()
			w.beats[to.Node]++
			w.mu.Unlock()
			for now := w.look(to); now.frozen; now = w.look(to) { // it reads what was sent when it goes on
				select {
				case <-now.moved:
				case <-h.reset:
					return Answer{}
				case <-ctx.Done():
					return Answer{}
				}
			}
			heard(a)
		}
	}
}

// watching runs f with a Watcher of refs, in a bubble with its own time.
func watching(t *testing.T, refs []Ref, f func(t *testing.T, net *world, w *Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newWorld(nodeA, nodeB, nodeC)
		ctx, cancel := context.WithCancel(t.Context())
		w := NewWatcher(net, DefaultBeats())
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		w.Set(refs)
		time.Sleep(3 * time.Second) // of the bubble: all nodes are watched, nothing to report
		synctest.Wait()
		silence(t, w)
		f(t, net, w)
		cancel()
		run.Wait()
		if _, open := <-w.Signals(); open {
			t.Error("Signals is open after Run returned")
		}
	})
}

func silence(t *testing.T, w *Watcher) {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-w.Signals():
		t.Fatalf("signal out of nothing: %+v", s)
	default:
	}
}

func next(t *testing.T, w *Watcher) Signal {
	t.Helper()
	select {
	case s := <-w.Signals():
		return s
	case <-time.After(time.Minute):
		t.Fatal("no signal in a minute")
		return Signal{}
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

// A node that stands still before its first answer is found as soon as any other, where the others
// answer promptly. It has longer where they do not, or where no other one is known for long.
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

// Where all are watched from one moment on, one that answers promptly says nothing about the others.
func TestWatcherExpectsNothingWhereAllBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWorld(nodeA, nodeB)
		net.freeze(nodeB)
		ctx, cancel := context.WithCancel(t.Context())
		w := NewWatcher(net, DefaultBeats())
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

// A clock that runs out late says that this process did not run: what came in that time is read
// before silence is a sign.
func TestLateWatcherSuspectsNoNode(t *testing.T) {
	t0 := time.Now()
	for _, c := range []struct {
		late time.Duration
		want bool
	}{{0, true}, {5 * ms, true}, {60 * ms, false}} {
		n := watched{ref: nodeA, phase: dialling, heard: true, last: t0.Add(-500 * ms), began: t0}
		r := &watchRun{Watcher: NewWatcher(nil, DefaultBeats()), contacts: []*contact{{watched: n}}, tick: t0,
			next: t0.Add(250 * ms)}
		if at := r.wake(); !at.Equal(t0.Add(100 * ms)) {
			t.Errorf("wakes %s later", at.Sub(t0))
		}
		now := t0.Add(100*ms + c.late)
		r.clock(t.Context(), now)
		if got := len(r.queue) > 0; got != c.want {
			t.Errorf("%s late: signals %v", c.late, r.queue)
		}
		r.clock(t.Context(), r.wake())
		if len(r.queue) != 1 || r.planned.Sub(now) > 40*ms && !c.want {
			t.Errorf("%s late, at last: signals %v, after %s more", c.late, r.queue, r.planned.Sub(now))
		}
	}
}

// A node that stands still for half a second now and then is suspected the first time, and not
// again before its pauses are forgotten.
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
			time.Sleep(time.Duration(510)*ms - time.Duration(time.Now().UnixNano()%int64(250*ms))) // dialled, in vain
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
			t.Error("who stays was dialled again")
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
			t.Error("still beats to nobody's interest")
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
			t.Error("stopped to watch while nobody read")
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
