package main

import (
	"fmt"
	"strings"
	"time"
)

// waterfall is one start of a World, in milliseconds from what happened. The
// moments are those of the node that turned it running, the last that of the
// last worker; all of one machine, and so of one clock.
type waterfall [7]float64

var stageNames = [7]string{"sign", "decided", "proposed", "stopped", "barrier", "started", "all started"}

// went is the waterfall of the event e, for what happened at `at` and was over at `last`. nil: none
// was reported.
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

// stages is the row of one scenario.
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
