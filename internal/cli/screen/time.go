package screen

import (
	"fmt"
	"time"
)

// ShortTime formats a duration in at most two units.
func ShortTime(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	const day = 24 * time.Hour
	switch {
	case d >= 100*day:
		return "more than 99d"
	case d >= day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
