package progress_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// A curve covers the whole job with a bounded number of points, in order.
func TestCurveIsBounded(t *testing.T) {
	var c progress.Curve
	start := time.UnixMilli(1_000_000)
	for i := range int64(20_000) {
		at := start.Add(time.Duration(i) * 2 * time.Second)
		c, _ = c.With(rendezvous.Progress{Time: at, Step: &i, Generation: 1})
		if len(c.Points) > 200 {
			t.Fatalf("%d points after %d reports", len(c.Points), i+1)
		}
	}
	first, last := c.Points[0], c.Points[len(c.Points)-1]
	if first.At != start.UnixMilli() || *last.Step < 19_000 || len(c.Points) < 100 {
		t.Errorf("%d points from %d to step %d", len(c.Points), first.At, *last.Step)
	}
	for i := 1; i < len(c.Points); i++ {
		if c.Points[i].At <= c.Points[i-1].At {
			t.Fatalf("point %d is not after the one before", i)
		}
	}
	c, changed := c.With(rendezvous.Progress{Time: start.Add(40_001 * time.Second), Generation: 2})
	if !changed || c.Points[len(c.Points)-1].Generation != 2 {
		t.Error("the first report of a generation is left out")
	}
}
