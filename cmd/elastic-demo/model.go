package main

import (
	"math"
	"math/rand/v2"
)

const classes = 3

// dataset has three noisy spirals in the plane. It depends only on the seed, so it is the same on
// every machine.
type dataset struct {
	x    [][2]float64
	y    []int
	seed uint64

	epoch int64 // the epoch of this order
	order []int
}

func makeData(n int, seed uint64) *dataset {
	d := &dataset{x: make([][2]float64, n), y: make([]int, n), seed: seed, epoch: -1}
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		d.y[i] = i % classes
		t := rng.Float64()
		angle := 2*math.Pi*float64(d.y[i])/classes + 3.5*t + 0.15*rng.NormFloat64()
		d.x[i] = [2]float64{2 * t * math.Cos(angle), 2 * t * math.Sin(angle)}
	}
	return d
}

// at returns the sample at a position of the run. Positions count samples over all epochs and
// ranks. Every rank knows the order of every epoch. So every sample is used once an epoch in any
// world.
func (d *dataset) at(position int64) int {
	n := int64(len(d.x))
	if epoch := position / n; epoch != d.epoch {
		random := rand.New(rand.NewPCG(d.seed, uint64(epoch)+2)) // 0 and 1 are of the data and the weights
		d.epoch, d.order = epoch, random.Perm(int(n))
	}
	return d.order[position%n]
}

// newWeights returns the weights of a network with one tanh layer and a softmax, as one vector: a
// row (a, b, bias) for each hidden unit, then a row (a weight for each hidden unit, bias) for each
// class.
func newWeights(hidden int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := make([]float64, hidden*3+classes*(hidden+1))
	for i := range w {
		w[i] = rng.NormFloat64() / 2
	}
	return w
}

// gradient receives a scaled gradient. The zero value ignores it.
type gradient struct {
	into  []float64
	scale float64
}

// loss returns the loss of the network on one sample, and whether its best guess is right.
func loss(w []float64, x [2]float64, y int, g gradient) (float64, bool) {
	scale, grad := g.scale, g.into
	hidden := (len(w) - classes) / (3 + classes)
	h, dh := make([]float64, hidden), make([]float64, hidden)
	for j := range h {
		h[j] = math.Tanh(w[3*j]*x[0] + w[3*j+1]*x[1] + w[3*j+2])
	}
	var p [classes]float64
	sum, guess := 0.0, 0
	for k := range p {
		row := w[3*hidden+k*(hidden+1):]
		p[k] = row[hidden]
		for j := range h {
			p[k] += row[j] * h[j]
		}
		if p[k] = math.Exp(max(-300, min(p[k], 300))); p[k] > p[guess] {
			guess = k
		}
		sum += p[k]
	}
	for k := 0; grad != nil && k < classes; k++ {
		d := scale * p[k] / sum
		if k == y {
			d -= scale
		}
		at := 3*hidden + k*(hidden+1)
		for j := range h {
			grad[at+j] += d * h[j]
			dh[j] += d * w[at+j]
		}
		grad[at+hidden] += d
	}
	for j := 0; grad != nil && j < hidden; j++ {
		d := dh[j] * (1 - h[j]*h[j])
		grad[3*j] += d * x[0]
		grad[3*j+1] += d * x[1]
		grad[3*j+2] += d
	}
	return math.Log(sum / p[y]), guess == y
}
