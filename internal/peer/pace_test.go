package peer

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: a probe waits as long as the way is now, not as long as a node once stood still.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	steady := func(d time.Duration) []time.Duration { return []time.Duration{3 * d, d, d, d} }
	times := func(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
	for name, c := range map[string]struct {
		streams [][]time.Duration // the dial, then round trips of each
		closed  bool              // the last stream
		want    time.Duration
	}{
		"nothing is known":     {nil, false, dialLimit},
		"a dial alone":         {[][]time.Duration{{30 * ms}}, false, 310 * ms},
		"a near node":          {[][]time.Duration{{90 * ms, 3 * ms, ms}}, false, 256 * ms},
		"one that stood still": {[][]time.Duration{{3 * ms, ms, 600 * ms, ms}}, false, 256 * ms},
		"a far node among near ones": {[][]time.Duration{steady(ms), steady(100 * ms), steady(ms)}, false,
			850 * ms},
		"a far node, then none": {[][]time.Duration{steady(ms), steady(100 * ms)}, true, 256 * ms},
		"a way that became longer": {[][]time.Duration{slices.Concat(steady(ms), times(40, 50*ms))},
			false, 550 * ms},
		"longer than a probe may take": {[][]time.Duration{steady(900 * ms)}, false, maxProbe},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPace()
				for i, stream := range c.streams {
					w := p.open(stream[0])
					for _, trip := range stream[1:] {
						time.Sleep(ms)
						w.sent()
						time.Sleep(trip / 2)
						w.sent() // the older one is measured
						time.Sleep(trip - trip/2)
						w.answered()
					}
					w.answered() // to a beat that was measured already
					if c.closed && i == len(c.streams)-1 {
						w.close()
					}
				}
				if got := p.limit(); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}
