package screen

import (
	"math"
	"testing"
	"time"
)

func TestShortTime(t *testing.T) {
	for d, want := range map[time.Duration]string{-5: "0s", 59*time.Second + 600*time.Millisecond: "1m00s",
		61 * time.Second: "1m01s",
		time.Hour:        "1h00m", 25*time.Hour + 5*time.Minute: "1d01h", 99 * 24 * time.Hour: "99d00h",
		math.MaxInt64: "more than 99d"} {
		if got := ShortTime(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
