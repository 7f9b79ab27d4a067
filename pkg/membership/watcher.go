package membership

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Link is the network as a Watcher uses it.
type Link interface {
	// Follow keeps one connection to the node, sends a beat for each value of beats, and passes to
	// heard the first answer and each answer to a beat, all of kind Same. If the dial brings
	// another kind, it returns that. Otherwise it returns NoAnswer once the connection broke or ctx
	// ended. A dial has its own deadline, well beyond the time that the Watcher waits: on a slow
	// machine, dials that are given up and begun again would never succeed.
	Follow(ctx context.Context, to Ref, beats <-chan struct{}, heard func(Answer)) Answer
}

// Signal is a change of a Watcher's suspicion of a node.
type Signal struct {
	Ref
	Sign   Sign          // ConnectionClosed, Silent, or "": it answers again
	Answer Answer        // result of the dial: Refused, Other or Stranger; NoAnswer if Silent
	Silent time.Duration // since the last answer, or since counting began
	Never  bool          // it never answered
}

// Cleared reports whether the signal withdraws the one before it.
func (s Signal) Cleared() bool { return s.Sign == "" }

// WatchTargets returns the nodes that me keeps a connection to: its k predecessors on the ring of
// members in rank order and then spares. So each node has k watchers.
//
// A node that refused a dial does not watch its own predecessors any more, so me watches them
// instead. Machines that end together are often neighbours on the ring, and most of them have lost
// their watchers. Each refusal adds one more node to watch, up to mostBehind, so that a long row of
// lost neighbours is found in growing steps and not two by two.
func WatchTargets(ring []Ref, me Ref, k int, refused func(Ref) bool) []Ref {
	at := slices.IndexFunc(ring, me.Same)
	if at < 0 {
		return nil
	}
	var watch []Ref
	for i := 1; i < len(ring) && k > 0; i++ {
		r := ring[(at-i+len(ring))%len(ring)]
		watch = append(watch, r)
		if !refused(r) {
			k--
		} else if k < mostBehind {
			k++
		}
	}
	return watch
}

// mostBehind is how many nodes are watched at most behind a row of refusals.
const mostBehind = 16

// Watcher keeps one connection to each watched node, and signals when one is dead or silent. Run
// owns all that it counts. The other methods may be called from any goroutine.
type Watcher struct {
	link    Link
	beats   Beats
	signals chan Signal
	changed chan struct{} // holds one value when wanted is new

	mu     sync.Mutex
	wanted []Ref
	held   map[Incarnation]bool // suspicions that hold now

	woken atomic.Int64 // number of rounds of Run, for a test
}

// NewWatcher returns a Watcher that watches no node yet. It sends its signals to signals, in order. A
// slow reader does not delay the watching.
func NewWatcher(l Link, b Beats, signals chan Signal) *Watcher {
	return &Watcher{link: l, beats: b, signals: signals, changed: make(chan struct{}, 1),
		held: map[Incarnation]bool{}}
}

// Set replaces the watched nodes. A suspicion of a node that is no longer watched is dropped
// without a signal. A suspicion of a node that is still watched is signalled again, because the
// caller may be another incarnation of this agent, or have dropped it.
func (w *Watcher) Set(refs []Ref) {
	w.mu.Lock()
	w.wanted = slices.Clone(refs)
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Holds reports whether this watcher suspects that incarnation. After a stall it does not, until it
// has counted anew.
func (w *Watcher) Holds(about Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[about.Incarnation]
}

// publish updates what Holds reports about a node.
func (w *Watcher) publish(n *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.sign != "" && !n.void {
		w.held[n.ref.Incarnation] = true
	} else {
		delete(w.held, n.ref.Incarnation)
	}
}

// contact is a watched node and the lines to it.
type contact struct {
	watched
	line  *line // the newest that did not end
	older *line // an established line that went silent, kept while line is dialled; an answer on it counts
}

// lineEvent is what a line reports to its owner.
type lineEvent struct {
	on *line
	event
}

// watchRun is the state of one Run. Its goroutine owns it.
type watchRun struct {
	*Watcher
	lines    sync.WaitGroup
	heard    chan lineEvent
	contacts []*contact
	queue    []Signal
	tick     time.Time // time of the last tick
	next     time.Time // time of the next tick
	planned  time.Time // when the timer fires next
}

// Run watches until ctx ends, and returns when everything that it started has ended.
func (w *Watcher) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	r := &watchRun{Watcher: w, heard: make(chan lineEvent), tick: time.Now()}
	defer func() {
		cancel()
		r.lines.Wait()
		w.mu.Lock()
		clear(w.held)
		w.mu.Unlock()
	}()
	r.next = r.tick.Add(UntilTick(r.tick, w.beats.Every))
	clock := time.NewTimer(time.Until(r.wake()))
	defer clock.Stop()
	for {
		var out chan<- Signal
		var first Signal
		if len(r.queue) > 0 {
			out, first = w.signals, r.queue[0]
		}
		select {
		case <-ctx.Done():
			return
		case out <- first:
			r.queue = r.queue[1:]
		case <-w.changed:
			r.renew(ctx, r.awake(ctx))
		case <-clock.C:
			r.clock(ctx, r.awake(ctx))
		case h := <-r.heard:
			r.hear(ctx, h, r.awake(ctx))
		}
		clock.Reset(time.Until(r.wake()))
		r.woken.Add(1)
	}
}

// clock handles the timer: it fires for the next tick, or when the silence of a node may become a
// sign.
func (r *watchRun) clock(ctx context.Context, now time.Time) {
	if now.Before(r.next) {
		// events that came meanwhile are handled first
		if late, grace := now.Sub(r.planned), r.beats.Every/8; late > grace {
			r.all(ctx, event{kind: starved, late: late + grace}, now)
			return
		}
		r.all(ctx, event{kind: expired}, now)
		return
	}
	r.tick, r.next = now, now.Add(UntilTick(now, r.beats.Every))
	r.all(ctx, event{kind: ticked}, now)
}

// wake returns when the timer must fire next, and keeps it in planned.
func (r *watchRun) wake() time.Time {
	r.planned = r.next
	b := r.times(r.tick)
	for _, c := range r.contacts {
		if due := c.due(b); !due.IsZero() {
			r.planned = earlier(r.planned, due)
		}
	}
	return r.planned
}

// awake returns the time. It first checks whether this process stood still: if so, the silence of
// other nodes in that time proves nothing.
func (r *watchRun) awake(ctx context.Context) time.Time {
	now := time.Now()
	gap := now.Sub(r.tick)
	late := gap - r.beats.Every
	switch {
	case gap > r.beats.Stall:
		r.all(ctx, event{kind: stalled}, now)
	case late > r.beats.Every/2:
		r.all(ctx, event{kind: starved, late: late}, now)
	default:
		return now
	}
	r.tick = now.Add(-r.beats.Every) // the tick itself is still due
	return now
}

// all applies an event to every contact.
func (r *watchRun) all(ctx context.Context, e event, now time.Time) {
	b := r.times(now)
	for _, c := range r.contacts {
		r.collect(ctx, c)
		r.apply(ctx, c, c.observe(e, now, b))
	}
}

// times returns the beats, with First as the contacts suggest.
func (r *watchRun) times(now time.Time) Beats {
	b := r.beats
	b.First = firstAnswer(r.contacts, now, b)
	return b
}

// collect handles the answer that a quiet line stored.
func (r *watchRun) collect(ctx context.Context, c *contact) {
	if c.line == nil {
		return
	}
	at := c.line.answered.Swap(0)
	if now := c.line.began.Add(time.Duration(at)); at > 0 && c.phase == up && now.After(c.last) {
		r.apply(ctx, c, c.observe(event{kind: answered}, now, r.times(now)))
	}
}

// hear handles an event of a line, and updates the lines of its contact.
func (r *watchRun) hear(ctx context.Context, h lineEvent, now time.Time) {
	c := h.on.to
	r.collect(ctx, c)
	switch {
	case h.kind == ended:
		h.on.cancel()
		if c.older == h.on {
			c.older = nil // the newer line decides
			return
		}
		if c.line != h.on {
			return
		}
		c.line = nil
	case c.older == h.on:
		c.line, c.older = c.older, c.line
		c.dropOlder()
	case c.line == h.on:
		c.dropOlder()
	default:
		return
	}
	r.apply(ctx, c, c.observe(h.event, now, r.times(now)))
}

// dropOlder ends the older line, if there is one.
func (c *contact) dropOlder() {
	if c.older != nil {
		c.older.cancel()
		c.older = nil
	}
}

// apply carries out orders about a contact.
func (r *watchRun) apply(ctx context.Context, c *contact, o orders) {
	if o.open {
		if c.line != nil {
			c.dropOlder()
			c.older = c.line
			c.older.quiet.Store(false)
		}
		c.line = r.open(ctx, c)
	}
	if o.beat {
		c.line.beat()
		c.older.beat()
	}
	r.queue = append(r.queue, o.signals...)
	r.publish(&c.watched)
	if c.line != nil && c.line.quiet.Swap(c.calm()) && !c.calm() {
		r.collect(ctx, c)
	}
}

// calm reports whether an answer of the node would only change the time of its last answer.
func (c *contact) calm() bool { return c.phase == up && c.sign == "" && !c.missed && c.older == nil }

// open opens a new line to a contact.
func (r *watchRun) open(ctx context.Context, c *contact) *line {
	ctx, cancel := context.WithCancel(ctx)
	l := &line{to: c, beats: make(chan struct{}, 1), cancel: cancel, began: time.Now()}
	tell := func(e event) {
		select {
		case r.heard <- lineEvent{l, e}:
		case <-ctx.Done():
		}
	}
	ref := c.ref
	r.lines.Go(func() {
		a := r.link.Follow(ctx, ref, l.beats, func(a Answer) {
			if !l.note() {
				tell(event{kind: answered, answer: a})
			}
		})
		tell(event{kind: ended, answer: a})
	})
	return l
}

// renew adjusts the contacts to the wanted nodes.
func (r *watchRun) renew(ctx context.Context, now time.Time) {
	r.mu.Lock()
	wanted := slices.Clone(r.wanted)
	r.mu.Unlock()
	r.contacts = slices.DeleteFunc(r.contacts, func(c *contact) bool {
		if i := slices.Index(wanted, c.ref); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			r.queue = append(r.queue, c.held(now)...)
			return false
		}
		if c.line != nil {
			c.line.cancel()
		}
		c.line = nil
		c.dropOlder()
		c.sign = ""
		r.publish(&c.watched)
		return true
	})
	for _, ref := range wanted {
		c := &contact{watched: watched{ref: ref}}
		r.contacts = append(r.contacts, c)
		r.apply(ctx, c, c.observe(event{kind: begun}, now, r.times(now)))
	}
}
