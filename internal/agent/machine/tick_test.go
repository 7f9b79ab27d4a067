package machine

import (
	"testing"
	"time"
)

// Whatever moment an agent comes in, it ticks in the moments in which every other does, four times a second.
func TestAgentsTickTogether(t *testing.T) {
	for _, late := range []time.Duration{0, 1, 83 * time.Millisecond, Tick - 1, Tick, 3*Tick + 1} {
		now := begin.Add(late)
		next := now.Add(UntilTick(now, Tick))
		if d := next.Sub(now); d <= 0 || d > Tick || next.Sub(begin)%Tick != 0 {
			t.Errorf("who comes %s late ticks %s later, %s after the first", late, d, next.Sub(begin))
		}
	}
}
