package membership

import "time"

// UntilTick is the time to the next tick of a clock that ticks every so often, at multiples of that
// by the wall clock. All agents of a machine then do what they repeat in the same moments, in which
// the beats of the others come, and sleep in between.
func UntilTick(now time.Time, every time.Duration) time.Duration {
	return now.Truncate(every).Add(every).Sub(now)
}

// lastTick is the time to the last tick that comes within d; d itself if none does.
func lastTick(now time.Time, d, every time.Duration) time.Duration {
	if wait := now.Add(d).Truncate(every).Sub(now); wait > 0 {
		return wait
	}
	return d
}
