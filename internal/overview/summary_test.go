package overview

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A rate that workers reported long ago is not shown as the present one.
func TestOldRate(t *testing.T) {
	st := status.Status{State: status.StateRunning,
		Progress: &status.Progress{SamplesPerSecond: new(900.0), LeftSeconds: new(60.0)}}
	if s := summaryOf(st, goodput.Report{}, time.Now()); s.Rate == nil || s.Left == nil {
		t.Errorf("rate %v, left %v of a fresh report", s.Rate, s.Left)
	}
	st.Progress.Late = true
	if s := summaryOf(st, goodput.Report{}, time.Now()); s.Rate != nil || s.Left != nil {
		t.Errorf("rate %v, left %v of an old report", *s.Rate, *s.Left)
	}
}
