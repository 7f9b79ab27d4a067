package diagnosis

import (
	"math"
	"testing"
)

// A rank is named if it computes one and a half times as long as the rank in the middle, and costs a
// twentieth of the time; the node is named if all its ranks do.
func TestFindSlow(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		owns  []float64 // milliseconds of a step of 100 ms
		slots int
		want  int // -1: none
		node  bool
		costs float64
	}{
		"all alike":                    {[]float64{50, 51, 49, 50}, 2, -1, false, 0},
		"one is slow":                  {[]float64{50, 51, 90, 50}, 2, 2, false, 0.40},
		"one of a node of one":         {[]float64{50, 51, 90, 50}, 1, 2, false, 0.40},
		"a node is slow":               {[]float64{50, 51, 50, 52, 90, 85}, 2, 4, true, 0.39},
		"a node of which one is":       {[]float64{50, 51, 50, 52, 90, 60}, 2, 4, false, 0.39},
		"exactly one and a half":       {[]float64{40, 60, 40}, 3, 1, false, 0.20},
		"a little less":                {[]float64{40, 59, 40}, 3, -1, false, 0},
		"of two":                       {[]float64{80, 40}, 1, 0, false, 0.40},
		"twice as slow, and no matter": {[]float64{4, 8, 4}, 3, -1, false, 0},
		"half of them are slow":        {[]float64{50, 90, 50, 90}, 2, 1, false, 0.40},
		"most are slow":                {[]float64{50, 90, 90}, 3, -1, false, 0},
		"of one, it is not known":      {[]float64{50, 0, 90}, 3, -1, false, 0},
		"a rank alone":                 {[]float64{50}, 1, -1, false, 0},
		"none answers":                 {nil, 2, -1, false, 0},
		"the world ends within a node": {[]float64{50, 50, 90}, 2, 2, true, 0.40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ranks []Pace
			for _, own := range x.owns {
				ranks = append(ranks, Pace{Own: own / 1000, Whole: 0.1})
			}
			s, found := FindSlow(ranks, x.slots)
			if found != (x.want >= 0) || found && (s.Rank != x.want || s.Node != x.node ||
				math.Abs(s.Costs-x.costs) > 1e-6) {
				t.Errorf("%v, %+v", found, s)
			}
		})
	}
}

func TestParsePace(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Pace{
		`{"step":7,"own":0.25,"whole":0.5}`: {0.25, 0.5}, `{"step":7}`: {}, ``: {}, `{"own":"x"}`: {},
		`{"own":-1,"whole":1}`: {}, `{"own":2,"whole":1}`: {}, `{"own":1e999,"whole":1}`: {},
	} {
		if got := ParsePace(line); got != want {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
