package hang

import (
	"fmt"
	"testing"
	"time"
)

// pace is a line of progress of a rank that computes for some milliseconds of a step of 100 ms.
func pace(ms int) string { return fmt.Sprintf(`{"step":200,"own":%g,"whole":0.1}`, float64(ms)/1000) }

// Each half minute of steps all ranks are asked, and a slow one is told once.
func TestSlowRank(t *testing.T) {
	t.Parallel()
	const (
		none  = ""
		fifth = "rank 3 on b is slow: it computes for 90 ms of each step, others for 50 ms; " +
			"they wait 40 % of the time"
	)
	for name, x := range map[string]struct {
		a, b []string
		away bool // b does not answer
		want string
	}{
		"all alike":                {[]string{pace(50), pace(50)}, []string{pace(50), pace(50)}, false, none},
		"one is slow":              {[]string{pace(50), pace(50)}, []string{pace(50), pace(90)}, false, fifth},
		"the script says nothing":  {[]string{`{"step":200}`, pace(50)}, []string{pace(50), pace(90)}, false, none},
		"one rank says nothing":    {[]string{pace(50), pace(50)}, []string{"", pace(90)}, false, none},
		"a node has too few ranks": {[]string{pace(50), pace(50)}, []string{pace(90)}, false, none},
		"a node has too many": {[]string{pace(50), pace(50)}, []string{pace(50), pace(90), pace(500)}, false,
			fifth},
		"a node does not answer": {[]string{pace(50), pace(50)}, []string{pace(50), pace(90)}, true, none},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &group{node: "a", paces: x.a}, &group{node: "b", paces: x.b})
			if x.away {
				l.server["b"].Close()
			}
			var s Slowness
			told, newest := 0, none
			for range 100 * time.Second / (2 * time.Second) {
				slow, first := s.After(t.Context(), l.nodes["a"], 2*time.Second)
				if newest = none; slow != nil {
					newest = slow.String()
				}
				if first {
					told++
				}
			}
			if newest != x.want || told > 1 || (told == 1) != (x.want != none) {
				t.Errorf("told %d times: %s", told, newest)
			}
		})
	}
}

// A rank that is slow no more is withdrawn.
func TestSlowRankRecovers(t *testing.T) {
	t.Parallel()
	g := &group{node: "a", paces: []string{pace(50), pace(90)}}
	l := newLab(t, g)
	var s Slowness
	if slow, first := s.After(t.Context(), l.nodes["a"], paceEvery); slow == nil || !first || slow.Whole {
		t.Errorf("%+v", slow)
	}
	g.paces = []string{pace(50), pace(51)}
	if slow, _ := s.After(t.Context(), l.nodes["a"], paceEvery/2); slow == nil {
		t.Error("asked too early")
	}
	if slow, _ := s.After(t.Context(), l.nodes["a"], paceEvery); slow != nil {
		t.Errorf("%+v", slow)
	}
	if slow, _ := s.After(t.Context(), nil, paceEvery); slow != nil {
		t.Error("workers that cannot be asked")
	}
}
