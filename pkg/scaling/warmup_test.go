package scaling_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elasticd/elastic/pkg/scaling"
)

// path plans one world after the other; each begins at a position in samples.
func path(t failer, b scaling.Base, worlds []int, at []int64) []*scaling.Plan {
	t.Helper()
	var plans []*scaling.Plan
	var before *scaling.Plan
	for i, w := range worlds {
		p, err := scaling.For(b, w)
		if err != nil {
			t.Errorf("world %d: %v", w, err)
			return nil
		}
		p.WarmFrom(before, at[i], b.WarmupSamples)
		plans, before = append(plans, p), p
	}
	return plans
}

func TestWarmup(t *testing.T) {
	b := scaling.Base{Batch: 64, LR: .1, Nodes: 1, Slots: 1, WarmupSamples: 1000}
	warm := func(begin int64, from float64) *scaling.Warmup {
		return &scaling.Warmup{Begin: begin, Samples: 1000, FromScale: from}
	}
	for name, c := range map[string]struct {
		worlds []int
		at     []int64
		want   *scaling.Warmup // of the last
	}{
		"the first world has its own schedule": {[]int{4}, []int64{0}, nil},
		"larger":                               {[]int{1, 2}, []int64{0, 500}, warm(500, 1)},
		"the same size":                        {[]int{2, 2}, []int64{0, 500}, nil},
		"smaller":                              {[]int{2, 1}, []int64{0, 500}, nil},
		"again before the first commit":        {[]int{1, 2, 2}, []int64{0, 500, 500}, warm(500, 1)},
		"again in the middle of the climb":     {[]int{1, 2, 2}, []int64{0, 500, 1200}, warm(500, 1)},
		"again after the climb":                {[]int{1, 2, 2}, []int64{0, 500, 1500}, nil},
		"larger in the middle of the climb":    {[]int{1, 2, 4}, []int64{0, 500, 1000}, warm(1000, 1.5)},
		"down below the climb":                 {[]int{1, 4, 2}, []int64{0, 0, 500}, nil},
		"down, and still above the climb":      {[]int{1, 4, 3}, []int64{0, 0, 100}, warm(100, 1.3)},
	} {
		t.Run(name, func(t *testing.T) {
			plans := path(t, b, c.worlds, c.at)
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-12 })
			if d := cmp.Diff(c.want, plans[len(plans)-1].Warmup, near); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// Whatever the worlds: the rate never jumps up at a change, stays between where it was and where it
// goes, and reaches the plan's.
func TestWarmupNeverJumpsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := scaling.Base{Batch: 64, LR: .1, Nodes: 2, Slots: 1, WarmupSamples: rapid.Int64Range(1, 5000).
			Draw(t, "samples"),
			Policy: rapid.SampledFrom([]scaling.Policy{scaling.Linear, scaling.Sqrt, scaling.FixedBatch}).
				Draw(t, "policy")}
		worlds := rapid.SliceOfN(rapid.IntRange(1, 8), 2, 8).Draw(t, "worlds")
		at := make([]int64, len(worlds))
		for i := range at[1:] { // a restart resumes at or after the begin of the one before
			at[i+1] = at[i] + rapid.Int64Range(0, 3000).Draw(t, "trained")
		}
		plans := path(t, b, worlds, at)
		for i := 1; i < len(plans); i++ {
			before, now := plans[i-1].Scale(at[i]), plans[i].Scale(at[i])
			if now > before+1e-9 {
				t.Fatalf("change %d: the rate jumps from %v to %v times the base", i, before, now)
			}
			if end := plans[i].Scale(at[i] + b.WarmupSamples); math.Abs(end-plans[i].LRScale) > 1e-9 {
				t.Fatalf("change %d: the climb ends at %v, the plan is %v", i, end, plans[i].LRScale)
			}
		}
	})
}

func TestWarmupThroughJSON(t *testing.T) {
	plans := path(t, scaling.Base{Batch: 64, LR: .1, Nodes: 1, Slots: 1, WarmupSamples: 7}, []int{1, 2},
		[]int64{0, 0})
	data, err := json.Marshal(plans[1])
	if err != nil {
		t.Fatal(err)
	}
	var back scaling.Plan
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plans[1], &back); d != "" {
		t.Errorf("(-want +got)\n%s\n%s", d, data)
	}
}
