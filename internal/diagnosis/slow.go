package diagnosis

import (
	"encoding/json"
	"slices"
)

// Pace is how long a rank takes for a step, in the middle of its last hundred, in seconds.
type Pace struct {
	Own   float64 // until it waits for the others; 0: not known
	Whole float64 // the step
}

// ParsePace reads a line of a progress file.
func ParsePace(line string) (p Pace) {
	if json.Unmarshal([]byte(line), &p) != nil || p.Own < 0 || p.Whole < p.Own {
		return Pace{}
	}
	return p
}

// Slow is the slowest rank.
type Slow struct {
	Rank  int
	Node  bool    // all ranks of its node are slow
	Own   float64 // seconds of a step until it waits
	Usual float64 // the same, of the rank in the middle
	Costs float64 // share of the time for which the others wait for it
}

// How much slower than the rank in the middle a rank is that counts as slow, and which share of the
// time it costs at least.
const (
	slowTimes = 1.5
	slowCosts = 0.05
)

// FindSlow returns the slowest rank, if it is slow. slots is how many ranks a node has. Where the pace
// of one rank is not known, none is named: the others may wait for that one.
func FindSlow(ranks []Pace, slots int) (Slow, bool) {
	if len(ranks) < 2 || slices.ContainsFunc(ranks, func(p Pace) bool { return p.Own <= 0 }) {
		return Slow{}, false
	}
	owns := make([]float64, len(ranks))
	for i, p := range ranks {
		owns[i] = p.Own
	}
	sorted := slices.Sorted(slices.Values(owns))
	usual, most := sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
	rank := slices.Index(owns, most)
	isSlow := func(own float64) bool { return own >= slowTimes*usual }
	s := Slow{Rank: rank, Own: most, Usual: usual, Costs: (most - usual) / ranks[rank].Whole}
	if !isSlow(most) || s.Costs < slowCosts {
		return Slow{}, false
	}
	first := rank / slots * slots
	of := owns[first:min(first+slots, len(owns))]
	s.Node = slots > 1 && !slices.ContainsFunc(of, func(own float64) bool { return !isSlow(own) })
	return s, true
}
