package membership

import "time"

// UntilTick is the time to the next tick of a clock that ticks at multiples of every by the wall
// clock. So the agents of one machine do their periodic work at the same moments, when the beats of
// the others arrive, and sleep in between.
func UntilTick(now time.Time, every time.Duration) time.Duration {
	return now.Truncate(every).Add(every).Sub(now)
}

// lastTick is the time to the last tick within d; d itself if there is none.
func lastTick(now time.Time, d, every time.Duration) time.Duration {
	if wait := now.Add(d).Truncate(every).Sub(now); wait > 0 {
		return wait
	}
	return d
}
