package kube_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/kube"
)

func TestDecide(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	exact := func(replicas, np, synced int) kube.Sizes {
		return kube.Sizes{Replicas: replicas, NP: np, Synced: synced, Min: np, Max: np,
			ReplicasAt: early, NPAt: early}
	}
	both := exact(4, 3, 2)
	editedLast, wishedLast := both, both
	editedLast.ReplicasAt, wishedLast.NPAt = late, late
	fresh := exact(4, 2, 0)
	fresh.ReplicasAt = late
	older, sameSecond := exact(4, 2, 0), exact(4, 2, 0)
	older.NPAt, sameSecond.NPAt = late, early.Add(600*time.Millisecond)
	for name, c := range map[string]struct {
		sizes kube.Sizes
		want  kube.Action
		n     int
		note  bool
	}{
		"equal and noted":                    {exact(2, 2, 2), kube.None, 0, false},
		"equal and not noted":                {exact(2, 2, 0), kube.Agree, 2, false},
		"replicas edited":                    {exact(4, 2, 2), kube.SetNP, 4, false},
		"np wished":                          {exact(2, 4, 2), kube.SetReplicas, 4, false},
		"both changed, replicas last":        {editedLast, kube.SetNP, 4, true},
		"both changed, np last":              {wishedLast, kube.SetReplicas, 3, true},
		"never agreed, replicas are younger": {fresh, kube.SetNP, 4, false},
		"never agreed, np is younger":        {older, kube.SetReplicas, 2, false},
		"never agreed, in the same second":   {sameSecond, kube.SetNP, 4, false},
		"no pods wanted":                     {exact(0, 2, 2), kube.None, 0, true},
		"range, inside": {kube.Sizes{Replicas: 3, NP: 4, Min: 1, Max: 4}, kube.None, 0,
			false},
		"range, above": {kube.Sizes{Replicas: 6, NP: 4, Min: 1, Max: 4}, kube.None, 0, true},
		"range, below": {kube.Sizes{Replicas: 1, NP: 4, Min: 2, Max: 4}, kube.None, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := kube.Decide(c.sizes)
			if got.Action != c.want || got.N != c.n || (got.Note != "") != c.note {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The clock of the API server may be far from that of the machine where a user scaled the job: a
// side that was not changed since both agreed never wins by it.
func TestDecideWithClocksThatDiffer(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		s := kube.Sizes{Replicas: 4, NP: 2, Synced: 2, Min: 2, Max: 2, ReplicasAt: now.Add(skew), NPAt: now}
		if got := kube.Decide(s); got.Action != kube.SetNP || got.N != 4 || got.Note != "" {
			t.Errorf("replicas was edited, its clock is %v ahead: %+v", skew, got)
		}
		s.Synced = 4
		if got := kube.Decide(s); got.Action != kube.SetReplicas || got.N != 2 || got.Note != "" {
			t.Errorf("np was wished, the other clock is %v ahead: %+v", skew, got)
		}
	}
}

// However often either side is edited, at most two steps after the last edit both sides agree.
func TestDecideConverges(t *testing.T) {
	now := time.Unix(1000, 0)
	for replicas := 1; replicas <= 4; replicas++ {
		for np := 1; np <= 4; np++ {
			for synced := range 5 {
				for _, first := range []time.Duration{-1, 1} {
					s := kube.Sizes{Replicas: replicas, NP: np, Synced: synced,
						ReplicasAt: now, NPAt: now.Add(first)}
					for range 2 {
						s.Min, s.Max = s.NP, s.NP
						switch step := kube.Decide(s); step.Action {
						case kube.SetNP:
							s.NP = step.N
						case kube.SetReplicas:
							s.Replicas = step.N
						case kube.Agree:
							s.Synced = step.N
						}
					}
					if s.Replicas != s.NP || s.Synced != s.NP {
						t.Errorf("from %d, %d, %d: %+v", replicas, np, synced, s)
					}
				}
			}
		}
	}
}
