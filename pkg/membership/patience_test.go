package membership

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLimit has gaps between answers, and the silence that is allowed after them.
func TestLimit(t *testing.T) {
	type gap struct{ at, ms int } // s since the first answer
	for name, c := range map[string]struct {
		gaps []gap
		want int // ms
	}{
		"prompt":                           {[]gap{{0, 1}, {1, 251}, {2, 260}}, 600},
		"some jitter is below the floor":   {[]gap{{0, 1}, {1, 390}}, 600},
		"half a second of pause":           {[]gap{{0, 1}, {5, 740}}, 1110},
		"the longest counts":               {[]gap{{0, 1}, {5, 740}, {6, 1200}, {7, 400}}, 1800},
		"one that stood still for long":    {[]gap{{0, 1}, {60, 20_000}}, 3000},
		"remembered in the next period":    {[]gap{{0, 1}, {5, 740}, {121, 251}, {230, 251}}, 1110},
		"forgotten in the one after it":    {[]gap{{0, 1}, {5, 740}, {121, 251}, {242, 251}}, 600},
		"long silence is no second period": {[]gap{{0, 1}, {5, 740}, {300, 251}}, 600},
	} {
		t0 := time.Now()
		n := &watched{heard: true}
		for _, g := range c.gaps {
			n.gaps.note(time.Duration(g.ms)*ms, t0.Add(time.Duration(g.at)*time.Second), DefaultBeats())
		}
		if got := n.limit(DefaultBeats()); got != time.Duration(c.want)*ms {
			t.Errorf("%s: %s, want %d ms", name, got, c.want)
		}
	}
	if got := (&watched{}).limit(DefaultBeats()); got != time.Second {
		t.Errorf("of one that never answered: %s", got)
	}
}

// A gap that is at most as long as the longest of the last period is not a sign again, within the
// patience. A node that stands still becomes one in time.
func TestLimitIsBeyondWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := DefaultBeats()
		n, now := &watched{heard: true}, time.Now()
		type answer struct {
			at  time.Time
			gap time.Duration
		}
		var seen []answer
		for range rapid.IntRange(1, 50).Draw(t, "answers") {
			gap := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * ms
			now = now.Add(gap + time.Duration(rapid.IntRange(0, 100).Draw(t, "s"))*time.Second)
			n.gaps.note(gap, now, b)
			seen = append(seen, answer{now, gap})
			limit := n.limit(b)
			if limit < b.Silence || limit > b.Patience {
				t.Fatalf("limit %s", limit)
			}
			var recent, any time.Duration
			for _, s := range seen {
				if now.Sub(s.at) < b.Memory {
					recent = max(recent, s.gap)
				}
				if now.Sub(s.at) < 4*b.Memory { // answers are rare here, so a period lasts until one comes
					any = max(any, s.gap)
				}
			}
			if limit <= min(recent, b.Patience-1) || limit > max(any+any/2, b.Silence) {
				t.Fatalf("limit %s, longest gap of the last period %s, of four %s", limit, recent, any)
			}
		}
	})
}
