package progress

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// pace is how fast a worker tells progress, measured between writes to its progress file and never
// between the moments at which the file was read: a read that comes just after a line, or one line
// late, would show a multiple of the real rate.
type pace struct{ points []point }

// point is the state of the progress file after one read of it.
type point struct {
	at      time.Time // the newest line was written
	lines   int       // that were new
	steps   *int64
	samples *int64
}

func stepsOf(p point) *int64   { return p.steps }
func samplesOf(p point) *int64 { return p.samples }

// A rate is taken over the points of the last half minute, and over at least two seconds.
const (
	paceWindow = 30 * time.Second
	paceLeast  = 2 * time.Second
)

func (p *pace) add(now point) {
	if n := len(p.points); n > 0 && (now.at.Before(p.points[n-1].at) ||
		fell(p.points[n-1].samples, now.samples)) {
		p.points = nil // the clock was set back, or the samples are counted anew
	}
	old := func(x point) bool { return now.at.Sub(x.at) > paceWindow }
	for len(p.points) > 1 && old(p.points[0]) && now.at.Sub(p.points[1].at) >= paceLeast {
		p.points = slices.Delete(p.points, 0, 1)
	}
	p.points = append(p.points, now)
}

func fell(from, to *int64) bool { return from != nil && to != nil && *to < *from }

// span is the time between the first point and the last; 0 while it is too short for a rate.
func (p *pace) span() time.Duration {
	d := p.points[len(p.points)-1].at.Sub(p.points[0].at)
	if d < paceLeast {
		return 0
	}
	return d
}

// rate is how much of a figure there is in a second; nil: not known.
func (p *pace) rate(of func(point) *int64) *float64 {
	if len(p.points) == 0 {
		return nil
	}
	first, last, d := of(p.points[0]), of(p.points[len(p.points)-1]), p.span()
	if d == 0 || first == nil || last == nil {
		return nil
	}
	return new(float64(*last-*first) / d.Seconds())
}

// interval is the usual time between two lines; nil: not known.
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
