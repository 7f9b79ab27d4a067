package hang

import (
	"testing"
	"time"
)

const unknown = -1

// The limit and the looks of one generation, told in seconds.
func TestLookout(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		lookout Lookout
		usual   time.Duration // of a step; 0: none is reported
		looks   []int         // seconds without a step
	}{
		"quick steps": {Lookout{Least: 30 * time.Second}, time.Second / 10,
			[]int{30, 60, 120, 240, 480}},
		"slow steps":              {Lookout{Least: 30 * time.Second}, 20 * time.Second, []int{200, 400}},
		"a limit of one's own":    {Lookout{Least: 2 * time.Minute}, time.Second, []int{120, 240, 480}},
		"no step was ever seen":   {Lookout{Least: 30 * time.Second}, 0, nil},
		"before the first step":   {Lookout{Least: 30 * time.Second, Earlier: true}, 0, []int{300}},
		"before it, with a limit": {Lookout{Least: 8 * time.Minute, Earlier: true}, 0, []int{480}},
		"one step":                {Lookout{Least: 30 * time.Second}, unknown, []int{300}},
		"switched off":            {Lookout{}, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := x.lookout
			if x.usual != 0 {
				l.Step(max(0, x.usual))
			}
			var looks []int
			for s := 1; s < 500; s++ {
				l.Quiet(time.Second)
				if l.Due() {
					looks = append(looks, s)
					l.Looked()
				}
			}
			if len(looks) != len(x.looks) {
				t.Fatalf("looks after %v, want %v", looks, x.looks)
			}
			for i := range looks {
				if looks[i] != x.looks[i] {
					t.Fatalf("looks after %v, want %v", looks, x.looks)
				}
			}
			l.Step(0)
			if l.Due() || l.Since() != 0 {
				t.Error("a step does not end the silence")
			}
		})
	}
}
