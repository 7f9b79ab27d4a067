package kube_test

import (
	"testing"

	"github.com/elasticd/elastic/internal/kube"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

func sized(np int, limits rendezvous.Limits) *rendezvous.Snapshot {
	return &rendezvous.Snapshot{Wish: rendezvous.Wish{NP: np}, Job: &rendezvous.Job{Limits: limits}}
}

func exact(np int) *rendezvous.Snapshot {
	return sized(np, rendezvous.Limits{Min: np, Max: np, Exact: true})
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		job              *rendezvous.Snapshot
		replicas, agreed int
		want             kube.Action
		n                int
		note             bool
	}{
		"equal and noted":        {exact(2), 2, 2, kube.None, 0, false},
		"equal and not noted":    {exact(2), 2, 0, kube.Agree, 2, false},
		"equal after both moved": {exact(3), 3, 2, kube.Agree, 3, false},
		"replicas edited":        {exact(2), 4, 2, kube.SetNP, 4, false},
		"np wished":              {exact(4), 2, 2, kube.SetReplicas, 4, false},
		"both changed":           {exact(3), 4, 2, kube.SetNP, 4, true},
		"never agreed":           {exact(2), 4, 0, kube.SetNP, 4, false},
		"no pods wanted":         {exact(2), 0, 2, kube.None, 0, true},
		"no pods, never agreed":  {exact(2), 0, 0, kube.None, 0, true},
		"no pods, np wished":     {exact(3), 0, 2, kube.None, 0, true},
		"range, inside":          {sized(4, rendezvous.Limits{Min: 1, Max: 4}), 3, 0, kube.None, 0, false},
		"range, above":           {sized(4, rendezvous.Limits{Min: 1, Max: 4}), 6, 0, kube.None, 0, true},
		"range, below":           {sized(4, rendezvous.Limits{Min: 2, Max: 4}), 1, 0, kube.None, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := kube.Decide(c.job, c.replicas, c.agreed)
			if got.Action != c.want || got.N != c.n || (got.Note != "") != c.note {
				t.Errorf("%+v", got)
			}
		})
	}
}

// However often either side is edited, at most two steps after the last edit both sides agree.
func TestDecideConverges(t *testing.T) {
	for first := 1; first <= 4; first++ {
		for wished := 1; wished <= 4; wished++ {
			for noted := range 5 {
				replicas, np, agreed := first, wished, noted
				for range 2 {
					switch step := kube.Decide(exact(np), replicas, agreed); step.Action {
					case kube.SetNP:
						np = step.N
					case kube.SetReplicas:
						replicas = step.N
					case kube.Agree:
						agreed = step.N
					}
				}
				if replicas != np || agreed != np {
					t.Errorf("from %d, %d, %d: %d, %d, %d", first, wished, noted, replicas, np, agreed)
				}
			}
		}
	}
}
