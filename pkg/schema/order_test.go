package schema

import (
	"testing"
	"time"
)

// An order is that of the clock, and above the one before it whatever the clock shows.
func TestNextOrder(t *testing.T) {
	at := func(o Order) time.Time { return time.UnixMilli(int64(o)) }
	for _, c := range []struct{ before, clock, want Order }{
		{0, 500, 500},
		{100, 500, 500},
		{500, 500, 501},
		{501, 500, 502},
		{MaxOrder - 1, 500, MaxOrder},
		{MaxOrder, 500, MaxOrder},
	} {
		if got := c.before.Next(at(c.clock)); got != c.want {
			t.Errorf("after %d, at %d: %d, want %d", c.before, c.clock, got, c.want)
		}
	}
}
