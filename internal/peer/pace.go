package peer

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	quickest   = 250 * time.Millisecond // least limit of a probe
	slowest    = 2 * time.Second        // the TCP connection alone may lose a packet and ask again
	roundTrips = 3                      // of a dial: TCP, TLS, the hello
	remembered = 16                     // answers; up to twice as many show how long a way is now
)

// pace is how long answers take to come to this agent: of each stream of beats, the quickest of its
// newest ones. A node that stands still now and then is not far away.
type pace struct {
	mu   sync.Mutex
	ways map[*way]time.Duration
}

func newPace() *pace { return &pace{ways: map[*way]time.Duration{}} }

// limit is that of a probe, from the dial to the hello: what two dials take on the longest way of
// a stream, and more; dialLimit where there is no stream.
func (p *pace) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, trip := range p.ways {
		longest = max(longest, trip)
	}
	if len(p.ways) == 0 {
		return dialLimit
	}
	return min(quickest+2*roundTrips*longest, slowest)
}

// way is one stream of beats, and how long its answers take.
type way struct {
	pace  *pace
	began time.Time
	asked atomic.Int64 // when the oldest beat without an answer was sent, since began; 0: there is none

	n            int // answers
	best, before time.Duration
}

// open adds a stream whose dial took so long.
func (p *pace) open(dial time.Duration) *way {
	w := &way{pace: p, began: time.Now(), best: dial / roundTrips, before: dial / roundTrips}
	w.tell()
	return w
}

func (w *way) close() {
	w.pace.mu.Lock()
	defer w.pace.mu.Unlock()
	delete(w.pace.ways, w)
}

func (w *way) sent() { w.asked.CompareAndSwap(0, int64(time.Since(w.began))) }

// answered is called by the reader of the stream alone.
func (w *way) answered() {
	asked := w.asked.Swap(0)
	if asked == 0 {
		return
	}
	trip := time.Since(w.began) - time.Duration(asked)
	if w.n++; w.n%remembered == 0 {
		w.best, w.before = trip, w.best
	}
	w.best = min(w.best, trip)
	w.tell()
}

func (w *way) tell() {
	w.pace.mu.Lock()
	defer w.pace.mu.Unlock()
	w.pace.ways[w] = min(w.best, w.before)
}
