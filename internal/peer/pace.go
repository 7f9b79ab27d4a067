package peer

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	minProbe   = 250 * time.Millisecond // lower limit of a probe
	maxProbe   = 2 * time.Second        // upper limit: TCP may lose a packet and repeat it
	roundTrips = 3                      // of a dial: TCP, TLS, the hello
	paceWindow = 16                     // answers; the best of the last 16 to 31 counts
)

// pace measures how long answers take. For each stream of beats it keeps the time of the fastest
// recent answer, because a node that pauses sometimes is not far away.
type pace struct {
	mu   sync.Mutex
	ways map[*way]time.Duration
}

func newPace() *pace { return &pace{ways: map[*way]time.Duration{}} }

// limit returns the time limit of a probe, until the hello: more than two dials take on the slowest
// stream. Without a stream it is dialLimit.
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
	return min(minProbe+2*roundTrips*longest, maxProbe)
}

// way is one stream of beats, with the time that its answers take.
type way struct {
	pace  *pace
	began time.Time
	asked atomic.Int64 // when the oldest beat without an answer was sent, since began; 0: none

	n            int // answers
	best, before time.Duration
}

// open adds a stream. dial is how long its dial took.
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

// answered records an answer. Only the reader of the stream calls it.
func (w *way) answered() {
	asked := w.asked.Swap(0)
	if asked == 0 {
		return
	}
	trip := time.Since(w.began) - time.Duration(asked)
	if w.n++; w.n%paceWindow == 0 {
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
