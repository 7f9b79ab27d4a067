package integration

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"
)

// times are the durations of changes of the world, by kind. They are logged and not checked.
type times map[string][]time.Duration

func (t times) add(kind string, d time.Duration) { t[kind] = append(t[kind], d) }

func (t times) log(to testing.TB) {
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		d := slices.Sorted(slices.Values(t[kind]))
		at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1)+0.5)].Round(time.Millisecond) }
		to.Logf("%s: %d times, least %s, p50 %s, p90 %s, p99 %s, most %s",
			kind, len(d), at(0), at(0.5), at(0.9), at(0.99), at(1))
	}
}

// logKept logs which share of the time went into steps that count, and where the rest went.
func (s *stayers) logKept() {
	r := s.object("goodput", "x")
	seconds, _ := r["seconds"].(map[string]any)
	kept, _ := seconds["kept"].(float64)
	elapsed, _ := r["elapsed_seconds"].(float64)
	stood := s.recorded().Seconds()
	s.t.Logf("kept %.2f %% of %.0f s: %v; by the workers' record of their steps: %.2f %%",
		100*kept/elapsed, elapsed, seconds, 100*(1-stood/elapsed))
}

// recorded returns the time in which no step ended, from the reports of the workers of all nodes:
// until the first step of the job, and from the last step of each generation to the first of the
// next one.
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

// passes notes how long after that moment three things had happened: the world of g ran, all of the
// nodes had called the training function, and all had ended their first step there.
func (s *stayers) passes(what string, since time.Time, g int, nodes ...string) {
	for _, e := range s.events("x") {
		if e.Kind == "world_running" && e.Generation == g {
			at, _ := time.Parse(time.RFC3339Nano, e.Time)
			s.took.add(what+" -> world running", at.Sub(since))
		}
	}
	called, stepped := 0, 0
	for _, n := range nodes {
		called, stepped = max(called, s.training(n).called), max(stepped, s.training(n).at)
	}
	s.took.add(what+" -> function called", time.Unix(0, int64(called)).Sub(since))
	s.took.add(what+" -> next step", time.Unix(0, int64(stepped)).Sub(since))
}

// last returns when the first of these nodes ended its last step in the generation before.
func (s *stayers) last(nodes ...string) (at time.Time) {
	for i, n := range nodes {
		if after := time.Unix(0, int64(s.training(n).after)); i == 0 || after.Before(at) {
			at = after
		}
	}
	return at
}

// reported returns the time of the newest event of that kind about a node.
func (s *stayers) reported(kind, node string) (at time.Time) {
	for _, e := range s.events("x") {
		if e.Kind == kind && e.Node != nil && *e.Node == node {
			at, _ = time.Parse(time.RFC3339Nano, e.Time)
		}
	}
	return at
}
