package scaling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ErrPlan is wrapped by all errors of this package. It means that there is no plan for the base, or
// none for the world.
var ErrPlan = errors.New("no batch plan")

// MaxWorld and MaxBatch are limits far above any real job. Their product does not overflow.
const (
	MaxWorld = 1 << 20
	MaxBatch = math.MaxInt32
)

// Policy says how batch and rate change with the world size.
type Policy string

const (
	Linear     Policy = "linear" // also the empty Policy
	Sqrt       Policy = "sqrt"
	FixedBatch Policy = "fixed-batch"
)

// MaxScale is how many times the base a world may be under linear and sqrt. There is no published
// evidence that a scaled learning rate works beyond it without tuning.
const MaxScale = 8

// Policies lists every policy, for messages.
const Policies = "linear, sqrt or fixed-batch"

// Base has the settings of the job for the base world of Nodes * Slots workers.
type Base struct {
	Batch  int     `json:"batch"` // global; 0 = not given
	LR     float64 `json:"lr"`    // 0 = not given
	Nodes  int     `json:"nodes"` // --base-np
	Slots  int     `json:"slots"` // workers per node
	Policy Policy  `json:"policy"`
	// WarmupSamples is how many samples a rise of the rate takes.
	WarmupSamples int64 `json:"warmup_samples,omitempty"`
}

// Plan is the batch and rate of one optimizer step in one world.
type Plan struct {
	Policy      Policy
	GlobalBatch int   // samples per step; 0 = no batch was given
	BatchSizes  []int // samples of one micro-batch, by rank
	GradAccum   int   // micro-batches per step
	LR          float64
	LRScale     float64 // LR divided by the rate of the base
	Warmup      *Warmup // nil: the rate is LR from the first step on
}

// Validate returns an error if there is no plan for the base world itself. Errors wrap ErrPlan.
func (b Base) Validate() error {
	switch {
	case b.Nodes < 1 || b.Slots < 1 || b.Nodes > MaxWorld || b.Slots > MaxWorld/b.Nodes:
		return planError("a base of %d nodes x %d workers: between 1 and %d workers",
			b.Nodes, b.Slots, MaxWorld)
	case b.Batch < 0 || b.Batch > MaxBatch:
		return planError("batch %d: between 1 and %d samples", b.Batch, MaxBatch)
	case b.Batch > 0 && b.Batch < b.world():
		return planError("batch %d is smaller than the base world of %d workers", b.Batch, b.world())
	case b.LR < 0 || math.IsNaN(b.LR) || math.IsInf(b.LR, 0):
		return planError("learning rate %v: a finite number above 0", b.LR)
	case b.WarmupSamples > 0 && !b.given():
		return planError("a warm-up of %d samples needs a batch or a learning rate", b.WarmupSamples)
	}
	switch b.Policy {
	case "", Linear, Sqrt, FixedBatch:
		return nil
	}
	return planError("unknown scaling %q: %s", b.Policy, Policies)
}

// LRScale returns the factor on the rate in a world. A job without batch and rate has no Plan, and
// gets only this factor. The base must be valid.
func (b Base) LRScale(world int) float64 {
	ratio := float64(world) / float64(b.world())
	switch b.Policy {
	case FixedBatch:
		return 1
	case Sqrt:
		return math.Sqrt(ratio)
	default:
		return ratio
	}
}

// For returns the plan of a world. It is nil if the base has neither batch nor rate. Errors wrap
// ErrPlan.
func For(b Base, world int) (*Plan, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	if world < 1 || world > MaxWorld {
		return nil, planError("a world of %d workers: between 1 and %d", world, MaxWorld)
	}
	if !b.given() {
		return nil, nil
	}
	p := &Plan{Policy: cmp.Or(b.Policy, Linear), LRScale: b.LRScale(world)}
	if ratio := float64(world) / float64(b.world()); p.Policy != FixedBatch && ratio > MaxScale {
		return nil, planError("%d workers are %.4g times the base of %d, the limit of policy %s is %d times",
			world, ratio, b.world(), p.Policy, MaxScale)
	}
	if err := p.fromBase(b, world); err != nil {
		return nil, err
	}
	return p, nil
}

// given reports whether the base has a batch or a rate.
func (b Base) given() bool { return b.Batch > 0 || b.LR > 0 }

func (p *Plan) fromBase(b Base, world int) (err error) {
	if p.LR = rate(b.LR, p.LRScale); math.IsInf(p.LR, 0) || (p.LR == 0) != (b.LR == 0) {
		return planError("learning rate %v times %v is out of range", b.LR, p.LRScale)
	}
	if b.Batch == 0 {
		return nil
	}
	p.GradAccum, p.GlobalBatch = 1, b.Batch
	if p.Policy == FixedBatch {
		if p.GradAccum, err = accumulation(b, world); err != nil {
			return err
		}
	} else {
		p.GlobalBatch = b.Batch * world / b.world()
	}
	p.BatchSizes = split(p.GlobalBatch/p.GradAccum, world)
	return nil
}

// rate returns lr times scale, rounded to twelve digits, so that people do not see the rounding
// errors of binary fractions (0.1 * 1.5 is 0.15000000000000002). The rate of the base is not
// rounded.
func rate(lr, scale float64) float64 {
	if scale == 1 {
		return lr
	}
	return twelveDigits(lr * scale)
}

func twelveDigits(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return math.Inf(1) // rounded above the largest float64
	}
	return rounded
}

// LossWeight returns the factor on the mean loss of a rank with which the average over ranks is the
// mean over the global batch. See the package comment.
func (p *Plan) LossWeight(rank int) float64 {
	return float64(p.BatchSizes[rank]*len(p.BatchSizes)) / float64(p.GlobalBatch/p.GradAccum)
}

func (b Base) world() int { return b.Nodes * b.Slots }

// accumulation returns the smallest divisor of the batch with which no micro-batch of a worker is
// larger than in the base world, and every rank gets a sample.
func accumulation(b Base, world int) (int, error) {
	if b.Batch < world {
		return 0, planError("batch %d is smaller than the world of %d workers", b.Batch, world)
	}
	most := ceilDiv(b.Batch, b.world())
	atLeast, atMost := ceilDiv(b.Batch, most*world), b.Batch/world
	best := 0
	for d := 1; d*d <= b.Batch; d++ {
		if b.Batch%d != 0 {
			continue
		}
		for _, a := range [...]int{d, b.Batch / d} {
			if a >= atLeast && a <= atMost && (best == 0 || a < best) {
				best = a
			}
		}
	}
	if best == 0 {
		return 0, planError("batch %d does not divide into equal steps of at most %d samples for each "+
			"of %d workers; a batch with more divisors does",
			b.Batch, most, world)
	}
	return best, nil
}

// split shares n samples among ranks. The first n%ranks ranks take one more.
func split(n, ranks int) []int {
	sizes := make([]int, ranks)
	for r := range sizes {
		sizes[r] = n / ranks
		if r < n%ranks {
			sizes[r]++
		}
	}
	return sizes
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func planError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrPlan}, args...)...)
}
