package membership

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Link is the network as a Watcher needs it.
type Link interface {
	// Follow keeps one connection to the node, sends a beat for each value of beats, and tells
	// heard of the first answer and of each answer to a beat, all of kind Same. It returns what
	// the dial brought when that is not Same, and otherwise NoAnswer, once the connection broke
	// or ctx ended. A dial has a deadline of its own.
	Follow(ctx context.Context, to Ref, beats <-chan struct{}, heard func(Answer)) Answer
}

// Beats are the times of a Watcher.
type Beats struct {
	Every   time.Duration // between two beats
	Missed  int           // beats without an answer before it dials anew
	Silence time.Duration // without any answer, and the new dial had none either: Silent
	Retry   time.Duration // between two dials of a node that is known to be gone
	Stall   time.Duration // gap between two own ticks past which the watcher distrusts itself
}

// DefaultBeats signal silence 1.0 to 1.5 s after the last answer with dials of 500 ms.
func DefaultBeats() Beats {
	return Beats{Every: 250 * time.Millisecond, Missed: 3, Silence: time.Second, Retry: time.Second, Stall: time.Second}
}

// Signal is a change of what a Watcher holds against a node.
type Signal struct {
	Ref
	Sign   Sign          // ConnectionClosed, Silent, or "": it answers again
	Answer Answer        // of the dial: Refused, Other or Stranger; NoAnswer when it is Silent
	Silent time.Duration // since the last answer, or since counting began
}

// Cleared reports whether the signal takes the one before it back.
func (s Signal) Cleared() bool { return s.Sign == "" }

// Watches are the nodes that me keeps a connection to: its k predecessors on the ring, which is
// the members in rank order and the spares behind them. So each node is watched by k others.
func Watches(ring []Ref, me Ref, k int) []Ref {
	at := slices.IndexFunc(ring, me.Same)
	if at < 0 {
		return nil
	}
	var watch []Ref
	for i := 1; i <= min(k, len(ring)-1); i++ {
		watch = append(watch, ring[(at-i+len(ring))%len(ring)])
	}
	return watch
}

// Watcher keeps one connection to each node that it watches and says when one is dead or silent.
// Run owns all it counts; the rest may be called from anywhere.
type Watcher struct {
	link    Link
	beats   Beats
	signals chan Signal
	changed chan struct{} // holds one value when wanted is new

	mu     sync.Mutex
	wanted []Ref
	held   map[Incarnation]bool // suspicions that hold now
}

// NewWatcher returns a Watcher that watches nobody.
func NewWatcher(l Link, b Beats) *Watcher {
	return &Watcher{link: l, beats: b, signals: make(chan Signal), changed: make(chan struct{}, 1),
		held: map[Incarnation]bool{}}
}

// Signals is closed when Run returns. Signals wait for their reader, in order; watching goes on.
func (w *Watcher) Signals() <-chan Signal { return w.signals }

// Set makes refs the nodes that are watched. What is held against a node that is no longer
// among them is forgotten without a signal.
func (w *Watcher) Set(refs []Ref) {
	w.mu.Lock()
	w.wanted = slices.Clone(refs)
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Holds answers whether this watcher still suspects that incarnation. After a stall of its own
// it does not until it has counted anew.
func (w *Watcher) Holds(about Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[about.Incarnation]
}

func (w *Watcher) publish(n *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.sign != "" && !n.void {
		w.held[n.ref.Incarnation] = true
	} else {
		delete(w.held, n.ref.Incarnation)
	}
}

// happening is what a link goroutine tells the owner.
type happening struct {
	to *line
	event
}

// line is one connection, or the attempt at one.
type line struct {
	of     *watched
	beats  chan struct{} // holds one beat at most: a stuck line misses beats, the owner never waits
	cancel context.CancelFunc
}

// Run watches until ctx ends, and returns when everything that it started has ended.
func (w *Watcher) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	heard := make(chan happening)
	var lines sync.WaitGroup
	defer func() {
		cancel()
		lines.Wait()
		w.mu.Lock()
		clear(w.held)
		w.mu.Unlock()
		close(w.signals)
	}()

	open := func(n *watched) *line {
		lctx, cut := context.WithCancel(ctx)
		l := &line{of: n, beats: make(chan struct{}, 1), cancel: cut}
		tell := func(e event) {
			select {
			case heard <- happening{l, e}:
			case <-lctx.Done():
			}
		}
		ref := n.ref
		lines.Go(func() {
			a := w.link.Follow(lctx, ref, l.beats, func(a Answer) { tell(event{kind: answered, answer: a}) })
			tell(event{kind: ended, answer: a})
		})
		return l
	}

	current := map[*watched]*line{} // the newest line of each
	var queue []Signal
	apply := func(n *watched, o orders) {
		l := current[n]
		if o.open {
			if l != nil {
				l.cancel()
			}
			current[n] = open(n)
		} else if o.beat {
			select {
			case l.beats <- struct{}{}:
			default:
			}
		}
		queue = append(queue, o.signals...)
		w.publish(n)
	}

	clock := time.NewTicker(w.beats.Every)
	defer clock.Stop()
	tick := time.Now()
	for {
		var out chan<- Signal
		var first Signal
		if len(queue) > 0 {
			out, first = w.signals, queue[0]
		}
		var on happening
		ticks := false
		select {
		case <-ctx.Done():
			return
		case out <- first:
			queue = queue[1:]
			continue
		case <-w.changed:
		case <-clock.C:
			ticks = true
		case on = <-heard:
		}

		now := time.Now()
		if now.Sub(tick) > w.beats.Stall {
			// This process did not run: what it missed says nothing about the others.
			for n := range current {
				apply(n, n.observe(event{kind: stalled}, now, w.beats))
			}
			tick = now
		}
		switch {
		case ticks:
			tick = now
			for n := range current {
				apply(n, n.observe(event{kind: ticked}, now, w.beats))
			}
		case on.to == nil:
			w.renew(current, func(n *watched) { apply(n, n.observe(event{kind: begun}, now, w.beats)) })
		case current[on.to.of] == on.to:
			apply(on.to.of, on.to.of.observe(on.event, now, w.beats))
		}
	}
}

// renew brings current in line with what is wanted.
func (w *Watcher) renew(current map[*watched]*line, begin func(*watched)) {
	w.mu.Lock()
	wanted := slices.Clone(w.wanted)
	w.mu.Unlock()
	for n, l := range current {
		if i := slices.Index(wanted, n.ref); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			continue
		}
		l.cancel()
		delete(current, n)
		n.sign = ""
		w.publish(n)
	}
	for _, ref := range wanted {
		begin(&watched{ref: ref})
	}
}

type kind int

const (
	begun    kind = iota // watching begins
	ticked               // one beat of the own clock
	answered             // the node answered over the line
	ended                // the line broke, or its dial failed
	stalled              // the own clock jumped
)

type event struct {
	kind   kind
	answer Answer
}

// orders are what follows from an event.
type orders struct {
	open    bool // dial anew, in place of the line there is
	beat    bool
	signals []Signal
}

type lineState int

const (
	down lineState = iota
	dialling
	up
)

// watched is all that is counted about one node. observe alone changes it; it decides and does nothing.
type watched struct {
	ref    Ref
	line   lineState
	began  time.Time // when the newest dial began
	broke  time.Time // when a line that was up broke last
	next   time.Time // down: no dial before
	last   time.Time // last answer, or when counting began (anew)
	missed bool      // a dial that began at last or later had no answer
	sign   Sign      // what is held against it
	void   bool      // the sign is from before a stall: held no more, not taken back yet
}

func (n *watched) observe(e event, now time.Time, b Beats) (o orders) {
	dial := func() { n.line, n.began, o.open = dialling, now, true }
	switch e.kind {
	case begun:
		n.last = now
		dial()
	case stalled:
		n.last, n.missed, n.void = now, false, n.sign != ""
	case answered:
		n.line, n.last, n.missed = up, now, false
		if n.sign != "" {
			n.sign, n.void = "", false
			o.signals = append(o.signals, Signal{Ref: n.ref, Answer: e.answer})
		}
	case ended:
		wasUp := n.line == up
		n.line, n.next = down, now
		switch {
		case wasUp:
			// A mere reset is no news if it answers the next dial; one that resets all the time must not make us spin.
			if now.Sub(n.broke) >= b.Every {
				dial()
			}
			n.broke = now
		case e.answer.Kind != NoAnswer:
			n.next = now.Add(b.Retry)
			o.signals = n.suspect(ConnectionClosed, e.answer, now)
		case !n.began.Before(n.last):
			n.missed = true
			o.signals = n.silence(now, b)
		}
	case ticked:
		// Half a beat less: an answer comes a little after the tick that asked for it.
		doubt := time.Duration(b.Missed)*b.Every - b.Every/2
		switch {
		case n.line == up && now.Sub(n.last) >= doubt:
			dial()
		case n.line == up:
			o.beat = true
		case n.line == down && !now.Before(n.next):
			dial()
		}
		o.signals = n.silence(now, b)
	}
	return o
}

func (n *watched) silence(now time.Time, b Beats) []Signal {
	if !n.missed || now.Sub(n.last) < b.Silence {
		return nil
	}
	return n.suspect(Silent, Answer{}, now)
}

// suspect signals what is new. A refused dial stays what it is when nothing answers any more;
// silence becomes more when the dial is refused at last.
func (n *watched) suspect(s Sign, a Answer, now time.Time) []Signal {
	if !n.void && (n.sign == s || n.sign == ConnectionClosed) {
		return nil
	}
	n.sign, n.void = s, false
	return []Signal{{Ref: n.ref, Sign: s, Answer: a, Silent: now.Sub(n.last)}}
}
