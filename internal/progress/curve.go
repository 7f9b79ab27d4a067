package progress

import (
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Curve is the progress of a job over its whole life, for charts. The agent of rank 0 writes it. No
// decision depends on it.
type Curve struct {
	Every  rendezvous.Seconds `json:"every"` // the shortest time between two points
	Points []CurvePoint       `json:"points"`
}

// CurvePoint is the progress at one time.
type CurvePoint struct {
	At         int64             `json:"t"` // milliseconds since 1970
	Generation schema.Generation `json:"g"`
	Step       *int64            `json:"s,omitempty"`
	Loss       *float64          `json:"l,omitempty"`
	Rate       *float64          `json:"r,omitempty"` // samples a second
}

// A curve starts with a point each firstEvery. When it has mostPoints, it keeps every second one, and
// takes half as many from then on. So its size is bounded, and it always covers the whole job.
const (
	firstEvery = rendezvous.Seconds(4 * time.Second)
	mostPoints = 200
)

// With returns c with p, if p is due. changed reports whether it was.
func (c Curve) With(p rendezvous.Progress) (next Curve, changed bool) {
	if c.Every == 0 {
		c.Every = firstEvery
	}
	at := p.Time.UnixMilli()
	if n := len(c.Points); n > 0 {
		last := c.Points[n-1]
		passed := time.Duration(at-last.At) * time.Millisecond
		if at <= last.At || last.Generation == p.Generation && passed < time.Duration(c.Every) {
			return c, false
		}
	}
	points := append([]CurvePoint{}, c.Points...)
	if len(points) >= mostPoints {
		kept := points[:0]
		for i, point := range points {
			if i%2 == 0 {
				kept = append(kept, point)
			}
		}
		points, c.Every = kept, 2*c.Every
	}
	c.Points = append(points, PointOf(p))
	return c, true
}

// PointOf returns the point of a report.
func PointOf(p rendezvous.Progress) CurvePoint {
	return CurvePoint{At: p.Time.UnixMilli(), Generation: p.Generation, Step: p.Step, Loss: p.Loss,
		Rate: p.SamplesPerSecond}
}
