package membership

import (
	"testing"
	"time"
)

// An agent ticks at the same moments as all others, four times a second, whenever it started.
func TestAgentsTickTogether(t *testing.T) {
	const tick = 250 * time.Millisecond
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, late := range []time.Duration{0, 1, 83 * time.Millisecond, tick - 1, tick, 3*tick + 1} {
		now := begin.Add(late)
		next := now.Add(UntilTick(now, tick))
		if d := next.Sub(now); d <= 0 || d > tick || next.Sub(begin)%tick != 0 {
			t.Errorf("an agent that comes %s late ticks %s later, %s after the first",
				late, d, next.Sub(begin))
		}
	}
}

// A renewal is sent at the last tick before it is due, and never later.
func TestRenewalsComeOnATick(t *testing.T) {
	const tick = 250 * time.Millisecond
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for late := time.Duration(0); late < time.Second; late += 70 * time.Millisecond {
		for _, due := range []time.Duration{0, 100 * time.Millisecond, time.Second, 1001 * time.Millisecond} {
			now := begin.Add(late)
			wait := lastTick(now, due, tick)
			onTick := now.Add(wait).Sub(begin)%tick == 0
			if wait < 0 || wait > due || wait < due-tick || !onTick && wait != due {
				t.Errorf("at %s, due in %s: waits %s", late, due, wait)
			}
		}
	}
}
