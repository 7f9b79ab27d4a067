package progress

import (
	"math"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// total is the size of the whole training, as a worker reported it; nil: unknown.
type total struct{ steps, samples *int64 }

func (t *total) take(l line) {
	if l.TotalSteps != nil && *l.TotalSteps > 0 {
		t.steps = l.TotalSteps
	}
	if l.TotalSamples != nil && *l.TotalSamples > 0 {
		t.samples = l.TotalSamples
	}
}

// left returns the share of the training that is done, and the remaining time; nil: unknown. It
// prefers samples to steps, because the batch of a step depends on the world.
func (t *total) left(now *rendezvous.Progress, p *pace) (done *float64, left *rendezvous.Seconds) {
	whole, at, of := t.samples, now.Samples, samplesOf
	if whole == nil || at == nil {
		whole, at, of = t.steps, now.Step, stepsOf
	}
	if whole == nil || at == nil {
		return nil, nil
	}
	done = new(min(max(float64(*at)/float64(*whole), 0), 1))
	if r := p.rate(of); r != nil && *r > 0 {
		seconds := float64(max(*whole-*at, 0)) / *r
		left = new(rendezvous.Seconds(min(seconds*float64(time.Second), float64(math.MaxInt64/2))))
	}
	return done, left
}
