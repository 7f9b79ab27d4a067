package proc

import (
	"testing"
	"time"
)

// What the program did in each period, and how many of eight processors it has after the last.
func TestProcessorsFollowUse(t *testing.T) {
	periods := func(n int, took time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, took)
		}
		return all
	}
	join := func(parts ...[]time.Duration) (all []time.Duration) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	rest, some, work := periods(rested, time.Millisecond), periods(1, 30*time.Millisecond),
		periods(1, 100*time.Millisecond)
	for _, c := range []struct {
		name string
		took []time.Duration
		want int
	}{
		{"it begins with all", nil, 8},
		{"at rest for less than five seconds", rest[1:], 8},
		{"at rest for five seconds", rest, 1},
		{"a little work in between begins the five seconds anew", join(rest[1:], some, rest[1:]), 8},
		{"a little work needs no second processor", join(rest, some), 1},
		{"much work has all in the next period", join(rest, work), 8},
		{"and keeps them until it rests again", join(rest, work, rest[1:]), 8},
		{"at rest again", join(rest, work, rest), 1},
	} {
		var u use
		for _, took := range c.took {
			u.add(took)
		}
		if got := u.processors(8); got != c.want {
			t.Errorf("%s: %d processors, want %d", c.name, got, c.want)
		}
	}
}
