package scaling

import "encoding/json"

// planJSON is the public form of a plan. Values that were not given are null, and an empty list is
// [].
type planJSON struct {
	Policy        Policy   `json:"scaling"`
	GlobalBatch   *int     `json:"global_batch_size"`
	BatchSizes    []int    `json:"batch_sizes"`
	GradAccum     *int     `json:"grad_accum_steps"`
	LR            *float64 `json:"lr"`
	LRScale       float64  `json:"lr_scale"`
	WarmupSamples int64    `json:"warmup_samples"`
	WarmupBegin   *int64   `json:"warmup_begin,omitempty"`
	WarmupLRScale *float64 `json:"warmup_lr_scale,omitempty"`
}

// MarshalJSON writes the plan for people and records. It does not write loss weights, because they
// follow from batch_sizes.
func (p Plan) MarshalJSON() ([]byte, error) {
	j := planJSON{Policy: p.Policy, GlobalBatch: &p.GlobalBatch, BatchSizes: p.BatchSizes,
		GradAccum: &p.GradAccum, LR: &p.LR, LRScale: p.LRScale}
	if p.GlobalBatch == 0 {
		j.GlobalBatch, j.BatchSizes, j.GradAccum = nil, []int{}, nil
	}
	if p.LR == 0 {
		j.LR = nil
	}
	if w := p.Warmup; w != nil {
		j.WarmupSamples, j.WarmupBegin, j.WarmupLRScale = w.Samples, &w.Begin, &w.FromScale
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (p *Plan) UnmarshalJSON(data []byte) error {
	*p = Plan{}
	j := planJSON{GlobalBatch: &p.GlobalBatch, GradAccum: &p.GradAccum, LR: &p.LR}
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	p.Policy, p.LRScale = j.Policy, j.LRScale
	if j.WarmupSamples > 0 && j.WarmupBegin != nil && j.WarmupLRScale != nil {
		p.Warmup = &Warmup{Begin: *j.WarmupBegin, Samples: j.WarmupSamples, FromScale: *j.WarmupLRScale}
	}
	if len(j.BatchSizes) > 0 {
		p.BatchSizes = j.BatchSizes
	}
	return nil
}
