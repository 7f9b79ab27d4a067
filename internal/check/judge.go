// Package check tests whether a node can train: its disk, its clock, its connections to the other
// nodes, and their speed.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Finding is the result of one check.
type Finding struct {
	Check  string   `json:"check"` // disk, clock, addresses, transfer
	Failed bool     `json:"failed"`
	Text   string   `json:"text"`
	Nodes  []string `json:"nodes"` // nodes with the problem
}

// Edge is a transfer from one node to another.
type Edge struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	Rate float64 `json:"bytes_per_second"`
	Err  string  `json:"error,omitempty"` // the reason if there was no transfer
}

// farSlower is how many times slower than the others a node must be for Slow.
const farSlower = 4

// Slow returns the nodes whose transfers are all far slower than those of the other nodes, and the
// usual rate. A node needs two transfers of its own, because one could be slow because of its
// neighbour. At least one transfer without the node is needed to compare.
func Slow(edges []Edge) (names []string, usual float64) {
	edges = slices.DeleteFunc(slices.Clone(edges), func(e Edge) bool { return e.Err != "" })
	of := map[string][]float64{}
	for _, e := range edges {
		of[e.From] = append(of[e.From], e.Rate)
		of[e.To] = append(of[e.To], e.Rate)
	}
	for node, own := range of {
		var others []float64
		for _, e := range edges {
			if e.From != node && e.To != node {
				others = append(others, e.Rate)
			}
		}
		if len(own) >= 2 && len(others) > 0 && slices.Max(own)*farSlower < median(others) {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	var all []float64
	for _, e := range edges {
		all = append(all, e.Rate)
	}
	return names, median(all)
}

// Skewed returns the nodes whose clock differs by more than most from the median of all clocks.
// offsets are relative to any clock. If there are only two clocks and they differ, both are
// returned, because it is unknown which one is wrong.
func Skewed(offsets map[string]time.Duration, most time.Duration) (names []string) {
	var all []float64
	for _, d := range offsets {
		all = append(all, float64(d))
	}
	middle := time.Duration(median(all))
	for node, d := range offsets {
		if (d - middle).Abs() > most {
			names = append(names, node)
		}
	}
	if len(offsets) == 2 && len(names) == 1 {
		names = slices.Collect(maps.Keys(offsets))
	}
	slices.Sort(names)
	return names
}

// median returns the middle of values, 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Bytes formats a number of bytes.
func Bytes(n float64) string {
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		if n < 1000 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " " + unit
		}
		n /= 1000
	}
	return fmt.Sprintf("%.1f TB", n)
}
