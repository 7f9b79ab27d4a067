package capture

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Workers pause at random calls for random times, save at random intervals, and are killed at
// random calls. The agent looks at random intervals, and other generations resume from the saves
// that were taken. No save mixes files of two saves. COUNT sets how many lives are played, and SEED
// the first.
func TestRandomLives(t *testing.T) {
	count, first := 1200, 0
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	if n, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		first = n
	}
	b, failed := books{}, 0
	for seed := first; seed < first+count && failed < 20; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		s := scenario{layout: r.IntN(len(layouts)), resumed: r.IntN(3) == 0}
		name := layouts[s.layout].name
		l := b.begin(t, s)
		l.random(r)
		for _, wrong := range l.wrongs {
			wrong = slices.DeleteFunc(wrong,
				func(w string) bool { return strings.Contains(w, "is the newest") })
			if len(wrong) > 0 {
				failed++
				t.Errorf("seed %d: %s, resumed %t: %s; %q",
					seed, name, s.resumed, strings.Join(wrong, "; "), l.taken)
			}
		}
	}
}

// random plays a life with random pauses and looks, and a random death.
func (l *life) random(r *rand.Rand) {
	pauses := []time.Duration{0, 0, 0, 100 * time.Millisecond, 700 * time.Millisecond,
		1500 * time.Millisecond, 4 * time.Second, 30 * time.Second}
	looks, often := 1+r.IntN(4), 1+r.IntN(20)
	wait := func() {
		d := pauses[r.IntN(len(pauses))]
		switch {
		case r.IntN(looks) > 0:
			l.now = l.now.Add(d)
		case d == 0:
			l.looks(60*time.Millisecond, false)
		default:
			l.passes(d)
		}
	}
	for l.step = 1; l.step <= saves; l.step++ {
		if l.step == resumedAt && l.s.resumed {
			if !l.resume() {
				return
			}
		}
		l.w.tick()
		for i, c := range l.steps[l.step].calls {
			if r.IntN(often) == 0 {
				wait()
			}
			if r.IntN(150) == 0 {
				l.s.killed = point{l.step, i}
				l.die()
				return
			}
			l.w.make(c)
		}
		wait()
	}
}
