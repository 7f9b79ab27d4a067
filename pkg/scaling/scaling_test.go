package scaling_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elasticd/elastic/pkg/scaling"
)

func base(p scaling.Policy, batch int, lr float64, nodes, slots int) scaling.Base {
	return scaling.Base{Batch: batch, LR: lr, Nodes: nodes, Slots: slots, Policy: p}
}

func TestFor(t *testing.T) {
	const lin, sqrt, fixed = scaling.Linear, scaling.Sqrt, scaling.FixedBatch
	for name, c := range map[string]struct {
		base  scaling.Base
		world int
		want  scaling.Plan
	}{
		"linear, the example of the contract": {base(lin, 256, .1, 1, 2), 4,
			scaling.Plan{Policy: lin, GlobalBatch: 512, BatchSizes: []int{128, 128, 128, 128}, GradAccum: 1,
				LR: .2, LRScale: 2}},
		"linear is the default": {base("", 256, .1, 2, 1), 1,
			scaling.Plan{Policy: lin, GlobalBatch: 128, BatchSizes: []int{128}, GradAccum: 1, LR: .05,
				LRScale: .5}},
		"linear, base batch does not divide": {base(lin, 256, .1, 3, 1), 3,
			scaling.Plan{Policy: lin, GlobalBatch: 256, BatchSizes: []int{86, 85, 85}, GradAccum: 1, LR: .1,
				LRScale: 1}},
		"linear, rounded down over the world": {base(lin, 256, .3, 3, 1), 4,
			scaling.Plan{Policy: lin, GlobalBatch: 341, BatchSizes: []int{86, 85, 85, 85}, GradAccum: 1,
				LR: .4, LRScale: 4. / 3}},
		"sqrt": {base(sqrt, 64, .01, 2, 2), 16,
			scaling.Plan{Policy: sqrt, GlobalBatch: 256,
				BatchSizes: []int{16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16},
				GradAccum:  1, LR: .02, LRScale: 2}},
		"fixed-batch, larger world": {base(fixed, 10, .1, 2, 1), 4,
			scaling.Plan{Policy: fixed, GlobalBatch: 10, BatchSizes: []int{3, 3, 2, 2}, GradAccum: 1, LR: .1,
				LRScale: 1}},
		"fixed-batch, smaller world accumulates": {base(fixed, 256, .1, 4, 1), 3,
			scaling.Plan{Policy: fixed, GlobalBatch: 256, BatchSizes: []int{43, 43, 42}, GradAccum: 2, LR: .1,
				LRScale: 1}},
		"fixed-batch, one worker of four": {base(fixed, 256, .1, 4, 1), 1,
			scaling.Plan{Policy: fixed, GlobalBatch: 256, BatchSizes: []int{64}, GradAccum: 4, LR: .1,
				LRScale: 1}},
		"fixed-batch, an odd batch takes an odd number of steps": {base(fixed, 255, 0, 4, 1), 3,
			scaling.Plan{Policy: fixed, GlobalBatch: 255, BatchSizes: []int{29, 28, 28}, GradAccum: 3,
				LRScale: 1}},
		"a prime batch on one worker": {base(fixed, 7, 0, 2, 1), 1,
			scaling.Plan{Policy: fixed, GlobalBatch: 7, BatchSizes: []int{1}, GradAccum: 7, LRScale: 1}},
		"rate alone": {base(lin, 0, .1, 1, 2), 6, scaling.Plan{Policy: lin, LR: .1 * 3, LRScale: 3}},
		"batch alone": {base(lin, 8, 0, 1, 2), 1,
			scaling.Plan{Policy: lin, GlobalBatch: 4, BatchSizes: []int{4}, GradAccum: 1, LRScale: .5}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := scaling.For(c.base, c.world)
			if err != nil {
				t.Fatal(err)
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-15 })
			if d := cmp.Diff(&c.want, got, near); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestNoPlan(t *testing.T) {
	const fixed = scaling.FixedBatch
	for name, c := range map[string]struct {
		base  scaling.Base
		world int
	}{
		"unknown policy":                    {base("quadratic", 8, .1, 1, 1), 1},
		"no base nodes":                     {base("", 8, .1, 0, 1), 1},
		"no workers":                        {base("", 8, .1, 1, 0), 1},
		"base world overflows":              {base("", 0, .1, math.MaxInt, math.MaxInt), 1},
		"base world too large":              {base("", 0, .1, scaling.MaxWorld, 2), 1},
		"negative batch":                    {base("", -1, .1, 1, 1), 1},
		"batch overflows":                   {base("", math.MaxInt, .1, 1, 1), 2},
		"batch smaller than the base world": {base("", 3, .1, 2, 2), 1},
		"batch smaller than the world":      {base(fixed, 8, .1, 1, 1), 9},
		"batch cannot be divided":           {base(fixed, 97, .1, 4, 1), 3},
		"negative rate":                     {base("", 8, -.1, 1, 1), 1},
		"rate is no number":                 {base("", 8, math.NaN(), 1, 1), 1},
		"rate overflows":                    {base("", 8, math.MaxFloat64, 1, 1), 2},
		"rate underflows":                   {base("", 8, math.SmallestNonzeroFloat64, 4, 1), 1},
		"world of none":                     {base("", 8, .1, 1, 1), 0},
		"world too large":                   {base("", 8, .1, 1, 1), math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := scaling.For(c.base, c.world); !errors.Is(err, scaling.ErrPlan) || p != nil {
				t.Errorf("plan %+v, error %v; want ErrPlan alone", p, err)
			}
		})
	}
}

func TestNeitherBatchNorRate(t *testing.T) {
	b := base("", 0, 0, 1, 2)
	if p, err := scaling.For(b, 4); p != nil || err != nil {
		t.Errorf("plan %+v, error %v; want neither", p, err)
	}
	if got := b.LRScale(4); got != 2 {
		t.Errorf("scale %v, want 2", got)
	}
}

func TestHugeWorlds(t *testing.T) {
	for _, policy := range []scaling.Policy{scaling.Linear, scaling.Sqrt, scaling.FixedBatch} {
		p, err := scaling.For(base(policy, scaling.MaxBatch, .1, scaling.MaxWorld/16, 2), scaling.MaxWorld)
		if err != nil {
			t.Fatal(policy, err)
		}
		check(t, base(policy, scaling.MaxBatch, .1, scaling.MaxWorld/16, 2), scaling.MaxWorld, p)
	}
	p, err := scaling.For(base(scaling.FixedBatch, 1<<20, .1, 1250, 8), 9999)
	if err != nil {
		t.Fatal(err)
	}
	check(t, base(scaling.FixedBatch, 1<<20, .1, 1250, 8), 9999, p)
}

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// check holds p against what the package comment promises.
func check(t failer, b scaling.Base, world int, p *scaling.Plan) {
	t.Helper()
	if len(p.BatchSizes) != world {
		t.Errorf("%d batch sizes for a world of %d", len(p.BatchSizes), world)
		return
	}
	sum, weights := 0, 0.
	for r, n := range p.BatchSizes {
		sum += n
		weights += p.LossWeight(r)
		if first, last := p.BatchSizes[0], p.BatchSizes[world-1]; n < 1 || n > first || n < last ||
			first-last > 1 {
			t.Errorf("rank %d takes %d, the first %d, the last %d", r, n, first, last)
		}
		// What the doc says of a worker that walks its batch from its rank on.
		if walk := (sizeOf(p) - r + world - 1) / world; walk != n {
			t.Errorf("rank %d takes %d, a walk from its rank on finds %d", r, n, walk)
		}
	}
	if sum*p.GradAccum != p.GlobalBatch {
		t.Errorf("%d samples x %d micro-batches are not the global batch %d", sum, p.GradAccum, p.GlobalBatch)
	}
	if mean := weights / float64(world); math.Abs(mean-1) > 1e-9 {
		t.Errorf("loss weights average to %v", mean)
	}
	baseWorld := b.Nodes * b.Slots
	if most := (b.Batch + baseWorld - 1) / baseWorld; p.BatchSizes[0] > most {
		t.Errorf("a micro-batch of %d, at the base it was at most %d", p.BatchSizes[0], most)
	}
}

func sizeOf(p *scaling.Plan) int { return p.GlobalBatch / p.GradAccum }

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := scaling.Base{
			Nodes: rapid.IntRange(1, 40).Draw(t, "nodes"),
			Slots: rapid.IntRange(1, 8).Draw(t, "slots"),
			LR:    rapid.Float64Range(1e-9, 10).Draw(t, "lr"),
			Policy: rapid.SampledFrom([]scaling.Policy{"", scaling.Linear, scaling.Sqrt, scaling.FixedBatch}).
				Draw(t, "policy"),
		}
		baseWorld := b.Nodes * b.Slots
		b.Batch = rapid.IntRange(baseWorld, 100_000).Draw(t, "batch")

		at, err := scaling.For(b, baseWorld)
		if err != nil {
			t.Fatalf("no plan for the base world: %v", err)
		}
		check(t, b, baseWorld, at)
		if at.GlobalBatch != b.Batch || at.LR != b.LR || at.LRScale != 1 || at.GradAccum != 1 {
			t.Errorf("the plan of the base world is not the base: %+v", at)
		}

		world := rapid.IntRange(1, 500).Draw(t, "world")
		if b.Policy != scaling.FixedBatch {
			world = min(world, scaling.MaxScale*baseWorld)
		}
		p, err := scaling.For(b, world)
		if b.Policy == scaling.FixedBatch {
			if want := divisorExists(b.Batch, baseWorld, world); (err == nil) != want {
				t.Fatalf("error %v, a trial of every number of micro-batches finds a plan: %v", err, want)
			}
		}
		if err != nil {
			if b.Policy == scaling.FixedBatch && errors.Is(err, scaling.ErrPlan) {
				return
			}
			t.Fatal(err)
		}
		check(t, b, world, p)
		if b.Policy == scaling.FixedBatch && (p.GlobalBatch != b.Batch || p.LR != b.LR) {
			t.Errorf("fixed-batch changed batch or rate: %+v", p)
		}

		var back scaling.Plan
		if data, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		} else if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(*p, back); d != "" {
			t.Errorf("through JSON (-want +got)\n%s", d)
		}
	})
}

// divisorExists is the rule of fixed-batch, tried out.
func divisorExists(batch, baseWorld, world int) bool {
	most := (batch + baseWorld - 1) / baseWorld
	for a := 1; a <= batch; a++ {
		if n := batch / a; batch%a == 0 && n >= world && (n+world-1)/world <= most {
			return true
		}
	}
	return false
}

// The average over ranks of weighted mean losses, as a data-parallel framework
// forms it, is the mean over the batch.
func TestLossWeightsMakeTheMeanExact(t *testing.T) {
	p, err := scaling.For(base(scaling.FixedBatch, 250, 0, 4, 1), 3)
	if err != nil {
		t.Fatal(err)
	}
	loss := func(i int) float64 { return float64(i*i%17) + 1 }
	want, got, next := 0., 0., 0
	for i := range p.GlobalBatch {
		want += loss(i) / float64(p.GlobalBatch)
	}
	for range p.GradAccum {
		for r, n := range p.BatchSizes {
			mean := 0.
			for range n {
				mean += loss(next) / float64(n)
				next++
			}
			got += mean * p.LossWeight(r) / float64(p.GradAccum) / float64(len(p.BatchSizes))
		}
	}
	if next != p.GlobalBatch || math.Abs(got-want) > 1e-12 {
		t.Errorf("%d samples with mean %v, want %d with %v", next, got, p.GlobalBatch, want)
	}
}

// People read the rate: twelve digits of it, and of the base all that were given.
func TestRateIsReadable(t *testing.T) {
	for _, c := range []struct {
		lr         float64
		base, at   int
		policy     scaling.Policy
		want       float64
		calculated float64 // what the plain product would be
	}{
		{.1, 2, 3, scaling.Linear, .15, .1 * 1.5},
		{.1, 1, 3, scaling.Linear, .3, .1 * 3.},
		{.1, 3, 4, scaling.Linear, .133333333333, .1 * (4. / 3)},
		{.01, 1, 2, scaling.Sqrt, .0141421356237, .01 * math.Sqrt2},
		{.1234567890123456, 2, 2, scaling.Linear, .1234567890123456, .1234567890123456},
		{.1234567890123456, 2, 4, scaling.FixedBatch, .1234567890123456, .1234567890123456},
		{6e-5, 8, 7, scaling.Linear, 5.25e-5, 6e-5 * .875},
	} {
		p, err := scaling.For(base(c.policy, 0, c.lr, c.base, 1), c.at)
		if err != nil {
			t.Fatal(err)
		}
		if p.LR != c.want {
			t.Errorf("%v of %d nodes, at %d: %v, want %v", c.lr, c.base, c.at, p.LR, c.want)
		}
		if off := math.Abs(p.LR-c.calculated) / c.calculated; off > 1e-11 {
			t.Errorf("%v of %d nodes, at %d: %v is off by %v of it", c.lr, c.base, c.at, p.LR, off)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		base scaling.Base
		want string
	}{
		{base("", 256, .1, 2, 1),
			`"linear","global_batch_size":256,"batch_sizes":[128,128],"grad_accum_steps":1,"lr":0.1`},
		{base(scaling.Sqrt, 0, .1, 2, 1),
			`"sqrt","global_batch_size":null,"batch_sizes":[],"grad_accum_steps":null,"lr":0.1`},
		{base(scaling.FixedBatch, 2, 0, 2, 1),
			`"fixed-batch","global_batch_size":2,"batch_sizes":[1,1],"grad_accum_steps":1,"lr":null`},
	} {
		p, err := scaling.For(c.base, 2)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"scaling":` + c.want + `,"lr_scale":1,"warmup_samples":0}`
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
		}
	}
}

func TestWorldsFarBeyondTheBaseAreRefused(t *testing.T) {
	for _, c := range []struct {
		policy scaling.Policy
		world  int
		ok     bool
	}{{"", 16, true}, {"", 17, false}, {scaling.Sqrt, 16, true}, {scaling.Sqrt, 17, false},
		{scaling.FixedBatch, 17, true}} {
		p, err := scaling.For(scaling.Base{Batch: 64, LR: .1, Nodes: 2, Slots: 1, Policy: c.policy}, c.world)
		if (err == nil) != c.ok || (p != nil) != c.ok || !c.ok && !errors.Is(err, scaling.ErrPlan) {
			t.Errorf("%s to %d workers: %+v, %v", c.policy, c.world, p, err)
		}
	}
}
