package scaling

// Warmup is a climb of the rate after a change that raised it: at Begin the rate
// is that of FromScale, Samples later it is that of the plan. Both positions count
// samples of the whole training, so a generation that starts in the middle of the
// climb goes on with it.
type Warmup struct {
	Begin     int64
	Samples   int64
	FromScale float64 // on the rate of the base, as Plan.LRScale is
}

// Scale is the factor on the rate of the base at a position in samples.
func (p *Plan) Scale(at int64) float64 {
	w := p.Warmup
	if w == nil || at >= w.Begin+w.Samples {
		return p.LRScale
	}
	done := float64(max(at-w.Begin, 0)) / float64(w.Samples)
	return w.FromScale + (p.LRScale-w.FromScale)*done
}

// WarmFrom gives p the climb that it needs when it follows the plan before at a
// position in samples. A rate that stays or falls needs none. A plan that leads to
// the same rate as the one before goes on with the climb of that one, so a restart
// in the middle neither skips nor repeats any of it.
func (p *Plan) WarmFrom(before *Plan, at, samples int64) {
	if p == nil || before == nil || samples <= 0 {
		return
	}
	if w := before.Warmup; w != nil && before.LRScale == p.LRScale && w.Samples == samples &&
		at >= w.Begin && at < w.Begin+w.Samples {
		again := *w
		p.Warmup = &again
		return
	}
	if from := before.Scale(at); from < p.LRScale {
		p.Warmup = &Warmup{Begin: at, Samples: samples, FromScale: from}
	}
}
