package main

import (
	"math"
	"math/bits"
)

// order is a permutation of 0..n-1 for a seed and an epoch. It is computed index by index and
// stores nothing. The Python helper has the same one (python/elastic/permutation.py, which explains
// it), so a program in either language can continue the training of the other.
type order struct {
	n, a, b uint64
	keys    [6]uint64
}

func newOrder(n int, seed uint64, epoch int64) order {
	o := order{n: uint64(n)}
	o.a = root(o.n-1) + 1
	o.b = (o.n + o.a - 1) / o.a
	key := mix(mix(seed) ^ uint64(epoch))
	for i := range o.keys {
		o.keys[i] = mix(key + uint64(i))
	}
	return o
}

// at returns the number at a position.
func (o *order) at(position int) int {
	for index := uint64(position); ; {
		left, right := index/o.b, index%o.b
		for i := 0; i < len(o.keys); i += 2 {
			left = add(left, mix(right^o.keys[i]), o.a)
			right = add(right, mix(left^o.keys[i+1]), o.b)
		}
		if index = left*o.b + right; index < o.n {
			return int(index)
		}
	}
}

// add returns (x + y) mod m without overflow.
func add(x, y, m uint64) uint64 {
	sum, carry := bits.Add64(x, y, 0)
	_, rem := bits.Div64(carry%m, sum, m)
	return rem
}

// root returns the largest integer whose square is at most n.
func root(n uint64) uint64 {
	r := uint64(math.Sqrt(float64(n)))
	for r*r > n {
		r--
	}
	for (r+1)*(r+1) <= n {
		r++
	}
	return r
}

// mix scrambles 64 bits (the finalizer of SplitMix64).
func mix(v uint64) uint64 {
	v += 0x9E3779B97F4A7C15
	v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
	v = (v ^ v>>27) * 0x94D049BB133111EB
	return v ^ v>>31
}
