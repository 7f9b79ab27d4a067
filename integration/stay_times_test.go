package integration

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"
)

// times are what changes of a world took, by their kind. They are told and not judged.
type times map[string][]time.Duration

func (t times) add(kind string, d time.Duration) { t[kind] = append(t[kind], d) }

func (t times) log(to testing.TB) {
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		d := slices.Sorted(slices.Values(t[kind]))
		at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1)+0.5)].Round(time.Millisecond) }
		to.Logf("%s: %d times, least %s, p50 %s, p90 %s, p99 %s, most %s", kind, len(d), at(0), at(0.5), at(0.9), at(0.99), at(1))
	}
}

// logKept tells which share of the time went into steps that count, and where the rest went.
func (s *stayers) logKept() {
	r := s.object("goodput", "x")
	seconds, _ := r["seconds"].(map[string]any)
	kept, _ := seconds["kept"].(float64)
	elapsed, _ := r["elapsed_seconds"].(float64)
	stood := s.recorded().Seconds()
	s.t.Logf("kept %.2f %% of %.0f s: %v; by the workers' record of their steps: %.2f %%", 100*kept/elapsed, elapsed,
		seconds, 100*(1-stood/elapsed))
}

// recorded is for how long no step ended, by what the workers of all nodes said: until the first step of
// the job, and from the last step of each generation to the first of the next one.
func (s *stayers) recorded() (stood time.Duration) {
	longest := map[string]time.Duration{} // by generation
	began, _ := time.Parse(time.RFC3339Nano, s.events("x")[0].Time)
	first := int64(math.MaxInt64)
	for _, x := range s.all {
		for _, m := range trainsIn.FindAllStringSubmatch(x.stdout(), -1) {
			at, _ := strconv.ParseInt(m[6], 10, 64)
			after, _ := strconv.ParseInt(m[7], 10, 64)
			if after == 0 { // it is new
				first = min(first, at)
				continue
			}
			longest[m[1]] = max(longest[m[1]], time.Duration(at-after))
		}
	}
	for _, d := range longest {
		stood += d
	}
	return stood + time.Unix(0, first).Sub(began)
}

// next is when the last of the nodes ended its first step of the generation at hand.
func (s *stayers) next(nodes ...string) (last time.Time) {
	for _, n := range nodes {
		if at := time.Unix(0, int64(s.training(n).at)); at.After(last) {
			last = at
		}
	}
	return last
}

// stood is the longest time between the last step of these nodes in a generation and the first in
// the next one.
func (s *stayers) stood(nodes ...string) (longest time.Duration) {
	for _, n := range nodes {
		said := s.training(n)
		longest = max(longest, time.Duration(said.at-said.after))
	}
	return longest
}

// decided is when the newest loss of a node was decided.
func (s *stayers) decided(node string) (at time.Time) {
	for _, e := range s.events("x") {
		if e.Kind == "node_lost" && e.Node != nil && *e.Node == node {
			at, _ = time.Parse(time.RFC3339Nano, e.Time)
		}
	}
	return at
}
