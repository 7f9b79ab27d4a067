package capture

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// saves is how many saves a worker of TestEverySystemCall makes.
const saves = 4

// resumedAt is the first save of a generation that begins from a checkpoint.
const resumedAt = 3

// point is a moment in the life of a worker: before call number At of the save of a step.
type point struct{ Step, At int }

// scenario is one life of a worker.
type scenario struct {
	layout int
	in     string        // directory of the saves
	paused point         // where the worker pauses
	pause  time.Duration // and how long
	gap    time.Duration // between two saves
	killed point         // where it is killed, or fails; Step is 0 if it ends by itself
	steady bool          // the agent looks after each call, and not only in pauses

	resumed bool // another generation makes the later saves
}

// fails reports whether the worker fails at its last call. Otherwise it is killed there.
func (s scenario) fails() bool { return (s.paused.At+s.killed.At)%2 == 1 }

// full reports whether the worker fails because the disk, or its table of inodes, is full: its last call
// writes a part of the bytes, or has no effect.
func (s scenario) full() bool { return s.fails() && s.killed.At%3 < 2 }

func (s scenario) String() string {
	end := map[bool]string{false: "killed", true: "fails"}[s.fails()]
	if s.full() {
		end = "disk full"
	}
	return fmt.Sprintf("%s in %q, pause of %s at %v, saves each %s, %s at %v, steady %t, resumed %t",
		layouts[s.layout].name, s.in, s.pause, s.paused, s.gap, end, s.killed, s.steady, s.resumed)
}

// everyLife yields all lives of workers that end by themselves: a pause before each call of each
// save, in all layouts and directories. deaths has the points after the pause at which a worker may
// be killed.
func everyLife(t *testing.T, yield func(s scenario, deaths []point)) {
	for i, layout := range layouts {
		for step := 1; step <= saves; step++ {
			probe := script{t: t, step: step}
			layout.save(&probe, "")
			for at := range probe.calls {
				var deaths []point
				for k := at; k < len(probe.calls); k++ {
					deaths = append(deaths, point{step, k})
				}
				for k := range probe.calls {
					deaths = append(deaths, point{step + 1, k})
				}
				for _, pause := range []time.Duration{300 * time.Millisecond, 2 * time.Second,
					20 * time.Second} {
					for _, gap := range []time.Duration{0, 2 * time.Second} {
						for _, in := range []string{"", "last/", "resnet50/", "exp1/ckpt/"} {
							s := scenario{layout: i, in: in, paused: point{step, at}, pause: pause, gap: gap,
								steady: at%2 == 0}
							yield(s, deaths)
							if s.resumed = true; step >= resumedAt {
								yield(s, deaths)
							}
						}
					}
				}
			}
		}
	}
}

// A worker pauses for any time before any system call of a save, and is killed, fails, or has a
// full disk at any later call, in all layouts, and with and without digits in names. The capture
// takes only files of one save, and it takes every complete save. COUNT sets how many of the lives
// are played, each with all of its deaths.
func TestEverySystemCall(t *testing.T) {
	b, played, failed := books{}, 0, 0
	lives := sample(t, 600, func(s scenario, deaths []point) {
		l := b.begin(t, s)
		l.deaths = deaths
		l.play()
		for s, wrong := range l.wrongs {
			if failed++; failed <= 20 {
				t.Errorf("%s: %s", s, strings.Join(wrong, "; "))
			}
		}
		played += 1 + len(deaths)
	})
	t.Logf("%s, %d scenarios, %d failed", lives, played, failed)
}

// Where the kernel gives no notices, fewer saves are taken, and none that is not whole.
func TestEverySystemCallWithoutNotices(t *testing.T) {
	b, failed, taken := books{}, 0, 0
	lives := sample(t, 300, func(s scenario, deaths []point) {
		l := b.beginOn(t, s, true)
		l.deaths = deaths
		l.play()
		taken += len(l.taken)
		for s, wrong := range l.wrongs {
			for _, w := range wrong {
				if !strings.Contains(w, "is the newest") {
					if failed++; failed <= 20 {
						t.Errorf("%s: %s", s, w)
					}
				}
			}
		}
	})
	t.Logf("%s, %d saves were taken, %d were wrong", lives, taken, failed)
}

// The capture takes the same saves of a simulated worker as of a process that makes the same calls
// on a disk of this machine.
func TestPlayedDiskIsLikeARealOne(t *testing.T) {
	b, n := books{}, 0
	sample(t, 100, func(s scenario, deaths []point) {
		n++
		s.killed = append(deaths, point{})[n%(len(deaths)+1)]
		t.Run(s.String(), func(t *testing.T) {
			played, real := b.begin(t, s), b.beginReal(t, s)
			played.play()
			real.play()
			if len(played.wrongs)+len(real.wrongs) > 0 {
				t.Error(played.wrongs, real.wrongs)
			}
			if !slices.Equal(played.taken, real.taken) {
				t.Errorf("played: %q, real: %q", played.taken, real.taken)
			}
			whole := s
			whole.killed = point{}
			forked := b.begin(t, whole)
			forked.deaths = []point{s.killed}
			forked.play()
			killed := s.killed != (point{}) && s.killed.Step <= saves && played.state != Running // no resume ended it before
			if killed && !slices.Equal(played.taken, forked.died) {
				t.Errorf("played: %q, died in the middle of a life: %q", played.taken, forked.died)
			}
		})
	})
}

// sample yields some of all lives: few, or as many as COUNT says.
func sample(t *testing.T, few int, yield func(s scenario, deaths []point)) string {
	count, total := few, 0
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	everyLife(t, func(scenario, []point) { total++ })
	n := 0
	everyLife(t, func(s scenario, deaths []point) {
		if n++; n*count/total != (n-1)*count/total {
			yield(s, deaths)
		}
	})
	return fmt.Sprintf("%d of %d lives", min(count, total), total)
}
