package main

import (
	"fmt"
	"strings"
	"time"
)

// waterfall has the times of one start of a world, in milliseconds since the fault or change. They
// are those of the node that proposed phase running. The last is when the last worker started. All
// come from one machine, and so from one clock.
type waterfall [7]float64

var stageNames = [7]string{"sign", "decided", "proposed", "stopped", "barrier", "started", "all started"}

// went returns the waterfall of the event e, for a fault at `at`. The last worker started at
// `last`. It returns nil if the event has none.
func (e event) went(at, last time.Time) *waterfall {
	f := e.Waterfall
	if f == nil || f.Started == nil {
		return nil
	}
	sign := e.Time.Add(-time.Duration(*f.Started) * time.Millisecond)
	w := waterfall{ms(sign.Sub(at))}
	for i, v := range []*int64{f.Decided, f.Proposed, f.Stopped, f.Barrier, f.Started} {
		w[i+1] = -1
		if v != nil {
			w[i+1] = w[0] + float64(*v)
		}
	}
	w[6] = ms(last.Sub(at))
	return &w
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stages returns the row of one scenario.
func stages(all []waterfall) string {
	var b strings.Builder
	for i := range stageNames {
		var d spread
		for _, w := range all {
			if w[i] >= 0 {
				d = append(d, time.Duration(w[i]*float64(time.Millisecond)))
			}
		}
		if len(d) == 0 {
			fmt.Fprintf(&b, " %12s", "-")
			continue
		}
		fmt.Fprintf(&b, " %12s", fmt.Sprintf("%.0f, %.0f", ms(d.at(0.5)), ms(d.at(0.99))))
	}
	return b.String()
}
