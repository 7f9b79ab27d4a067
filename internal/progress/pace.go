package progress

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// pace measures the rate of the progress between writes to the progress file. It does not use the
// times at which the file was read: a read just after a line, or a line that is a little late,
// would give a multiple of the real rate.
type pace struct{ points []point }

// point is the state of the progress file after one read of it.
type point struct {
	at      time.Time // when the newest line was written
	lines   int       // number of new lines
	steps   *int64
	samples *int64
}

func stepsOf(p point) *int64   { return p.steps }
func samplesOf(p point) *int64 { return p.samples }

// A rate covers the points of the last 30 seconds, and two seconds at least: people read it.
const (
	paceWindow = 30 * time.Second
	paceLeast  = 2 * time.Second
)

func (p *pace) add(now point) {
	if n := len(p.points); n > 0 && (now.at.Before(p.points[n-1].at) ||
		fell(p.points[n-1].samples, now.samples)) {
		p.points = nil // the clock was set back, or the samples restarted
	}
	old := func(x point) bool { return now.at.Sub(x.at) > paceWindow }
	for len(p.points) > 1 && old(p.points[0]) && now.at.Sub(p.points[1].at) >= paceLeast {
		p.points = slices.Delete(p.points, 0, 1)
	}
	p.points = append(p.points, now)
}

func fell(from, to *int64) bool { return from != nil && to != nil && *to < *from }

// rate returns the change of a value per second; nil: unknown.
func (p *pace) rate(of func(point) *int64) *float64 {
	if len(p.points) == 0 {
		return nil
	}
	first, last, d := of(p.points[0]), of(p.points[len(p.points)-1]), p.span()
	if d < paceLeast || first == nil || last == nil {
		return nil
	}
	return new(float64(*last-*first) / d.Seconds())
}

// interval returns the usual time between two lines; nil: unknown. Two points are enough, because each
// is at its newest line.
func (p *pace) interval() *rendezvous.Seconds {
	d, lines := p.span(), 0
	for _, x := range p.points[1:] {
		lines += x.lines
	}
	if d == 0 || lines == 0 {
		return nil
	}
	return new(rendezvous.Seconds(d / time.Duration(lines)))
}

// span returns the time between the first and the last point.
func (p *pace) span() time.Duration {
	return p.points[len(p.points)-1].at.Sub(p.points[0].at)
}
