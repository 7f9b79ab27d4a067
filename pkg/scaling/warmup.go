package scaling

// Warmup is a gradual rise of the rate. At Begin the rate has the factor FromScale. Samples later
// it is the rate of the plan. Begin counts the samples of the whole training, so a generation that
// starts in the middle of the rise continues it.
type Warmup struct {
	Begin     int64
	Samples   int64
	FromScale float64 // factor on the rate of the base, like Plan.LRScale
}

// Scale returns the factor on the rate of the base at a position in samples.
func (p *Plan) Scale(at int64) float64 {
	w := p.Warmup
	if w == nil || at >= w.Begin+w.Samples {
		return p.LRScale
	}
	done := float64(max(at-w.Begin, 0)) / float64(w.Samples)
	return w.FromScale + (p.LRScale-w.FromScale)*done
}

// WarmFrom sets the warm-up of p, which follows the plan before at a position in samples. A rate
// that stays or falls needs none. If both plans have the same rate, p continues the warm-up of
// before, so a restart in the middle neither skips nor repeats a part of it.
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
