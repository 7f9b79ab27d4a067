package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/store/memory"
)

// chance draws numbers from a seed, the time and a word only. Goroutines that draw at the same
// moment get the same numbers in any order, so a seed is one story on any number of processors.
type chance struct{ seed uint64 }

func (c chance) of(words ...any) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		if text, ok := w.(string); ok {
			h.Write([]byte(text))
		} else {
			fmt.Fprint(h, w)
		}
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(c.seed, h.Sum64()^uint64(time.Now().UnixNano())))
}

// IntN returns a number below n.
func (c chance) IntN(n int) int { return c.of(n).IntN(n) }

// latency is how long a message takes: some microseconds, different for almost every message.
func (c chance) latency(words ...any) time.Duration {
	return 100*time.Microsecond + time.Duration(c.of(words...).Int64N(int64(400*time.Microsecond)))
}

// drawn is the minimum length of a name that agents draw. Two that draw at the same moment may swap
// names.
const drawn = 26

// nameless is text with a star in place of each name that agents drew.
func nameless(text string) string {
	var out strings.Builder
	from, done := 0, 0 // of a run of such characters; what is in out
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (text[i] >= 'A' && text[i] <= 'Z' || text[i] >= '2' && text[i] <= '7') {
			continue
		}
		if i-from >= drawn {
			out.WriteString(text[done:from])
			out.WriteByte('*')
			done = i
		}
		from = i + 1
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// oneWay is one direction between an agent and the store that is cut.
type oneWay int

const (
	noWay   oneWay = iota // both are open
	wayOut                // no request arrives, and watches go on
	wayBack               // requests arrive; no answer and no change does
)

// fate decides what happens to a request of a.
func (a *simAgent) fate(op memory.Op) memory.Fate {
	words := []any{a.name, op.Kind, nameless(op.Key), len(op.Txn.If)}
	for _, w := range op.Txn.Then {
		words = append(words, nameless(w.Key))
	}
	f := memory.Fate{Delay: a.s.rng.latency(words...)}
	if a.s.fated != nil && a.s.fated(a, op) {
		return memory.Fate{Mute: true}
	}
	a.s.mu.Lock()
	bad, way := a.bad, a.way
	a.s.mu.Unlock()
	if f.Lost, f.Mute = way == wayOut, way == wayBack; way != noWay {
		return f
	}
	if !bad {
		return f
	}
	r := a.s.rng.of(append(words, "bad")...)
	if r.Float64() < 0.05 {
		f.Lost = r.IntN(2) == 0
		f.Mute = !f.Lost
	}
	if r.Float64() < 0.1 {
		f.Delay += time.Duration(r.Int64N(int64(mostDelay)))
	}
	return f
}

// mostDelay is by how much a request may be late.
const mostDelay = 3 * time.Second

// harmRequests makes requests of a get lost or late from now on, or ends that.
func (a *simAgent) harmRequests(bad bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.bad = bad
}
