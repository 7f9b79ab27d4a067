package membership

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

var (
	nodeA = Ref{Node: "a", Incarnation: "a1", Address: "10.0.0.1:1"}
	nodeB = Ref{Node: "b", Incarnation: "b1", Address: "10.0.0.2:1"}
	nodeC = Ref{Node: "c", Incarnation: "c1", Address: "10.0.0.3:1"}
)

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
			for now := w.look(to); now.frozen; now = w.look(to) { // then it reads what was sent
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
		w := NewWatcher(net, DefaultBeats(), make(chan Signal))
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		w.Set(refs)
		time.Sleep(3 * time.Second) // of the bubble: all nodes are watched, nothing to report
		synctest.Wait()
		silence(t, w)
		f(t, net, w)
		cancel()
		run.Wait()
	})
}

func silence(t *testing.T, w *Watcher) {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-w.signals:
		t.Fatalf("signal out of nothing: %+v", s)
	default:
	}
}

func next(t *testing.T, w *Watcher) Signal {
	t.Helper()
	select {
	case s := <-w.signals:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no signal in a minute")
		return Signal{}
	}
}

// A timer that fires late shows that this process did not run. Events from that time are handled
// before silence counts as a sign.
func TestLateWatcherSuspectsNoNode(t *testing.T) {
	t0 := time.Now()
	for _, c := range []struct {
		late time.Duration
		want bool
	}{{0, true}, {5 * ms, true}, {60 * ms, false}} {
		n := watched{ref: nodeA, phase: dialling, heard: true, last: t0.Add(-500 * ms), began: t0}
		r := &watchRun{Watcher: NewWatcher(nil, DefaultBeats(), nil), contacts: []*contact{{watched: n}}, tick: t0,
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
