package node

import (
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/worker"
)

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	before := worker.Pulse{CPU: time.Hour, IO: 1 << 30, Output: 1000}
	for name, test := range map[string]struct {
		now  worker.Pulse
		want bool
	}{
		"nothing":                          {before, false},
		"a line of output":                 {worker.Pulse{CPU: time.Hour, IO: 1 << 30, Output: 1001}, true},
		"a log that was rotated":           {worker.Pulse{CPU: time.Hour, IO: 1 << 30}, true},
		"an evaluation":                    {worker.Pulse{CPU: time.Hour + time.Second, IO: 1 << 30, Output: 1000}, true},
		"a thread that looks now and then": {worker.Pulse{CPU: time.Hour + 20*time.Millisecond, IO: 1 << 30, Output: 1000}, false},
		"a save":                           {worker.Pulse{CPU: time.Hour, IO: 1<<30 + 1<<20, Output: 1000}, true},
		"a heartbeat of a few bytes":       {worker.Pulse{CPU: time.Hour, IO: 1<<30 + 500, Output: 1000}, false},
		"a helper that ended":              {worker.Pulse{CPU: time.Minute, IO: 1 << 20, Output: 1000}, false},
	} {
		if got := alive(before, test.now, time.Second); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestSilenceIsThatOfAllWorkers(t *testing.T) {
	t.Parallel()
	h := &hangWatch{}
	start := time.Now().Add(-time.Hour)
	h.at, h.sign = start, start
	two := []worker.Pulse{{Output: 1}, {Output: 1}}
	h.observe(two, start.Add(time.Second)) // the first look is a sign of life
	h.observe(two, start.Add(10*time.Second))
	if !h.sign.Equal(start.Add(time.Second)) {
		t.Errorf("a sign of life at %s", h.sign.Sub(start))
	}
	h.observe([]worker.Pulse{{Output: 1}, {Output: 2}}, start.Add(20*time.Second))
	if !h.sign.Equal(start.Add(20 * time.Second)) {
		t.Errorf("a sign of life at %s", h.sign.Sub(start))
	}
}

func TestFaulthandlerOfTheUserStays(t *testing.T) {
	t.Parallel()
	env := [][]string{{"A=1"}, {"PYTHONFAULTHANDLER=", "A=1"}}
	withFaulthandler(env)
	if !slices.Equal(env[0], []string{"A=1", "PYTHONFAULTHANDLER=1"}) || !slices.Equal(env[1], []string{"PYTHONFAULTHANDLER=", "A=1"}) {
		t.Errorf("%q", env)
	}
}
