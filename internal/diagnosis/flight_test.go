package diagnosis

import (
	"strings"
	"testing"
)

func TestFindBehindByCollectives(t *testing.T) {
	t.Parallel()
	reduce := func(seq int64) *Collective { return &Collective{seq, "nccl:all_reduce"} }
	for name, test := range map[string]struct {
		of     []*Collective // by rank
		rank   int
		reason string
	}{
		"one began fewer": {[]*Collective{reduce(9), reduce(9), reduce(8), reduce(9)}, 2,
			"it began 8 collectives, and others wait in the 1st after that, nccl:all_reduce"},
		"one is in another one": {[]*Collective{reduce(9), {9, "nccl:barrier"}, reduce(9)}, 1,
			"it waits in collective 9, nccl:barrier, which is nccl:all_reduce for the others"},
		"two began fewer":     {[]*Collective{reduce(9), reduce(8), reduce(8)}, 0, "no rank stands out"},
		"all are in the same": {[]*Collective{reduce(9), reduce(9)}, 0, "no rank stands out"},
		"one is not known":    {[]*Collective{reduce(9), nil, reduce(8)}, 0, "no rank stands out"},
	} {
		var ranks []Standstill
		for rank, c := range test.of {
			ranks = append(ranks, Standstill{Rank: rank, State: "S", Collective: c})
		}
		if got := FindBehind(ranks); got.Rank != test.rank || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%s: rank %d: %s", name, got.Rank, got.Reason)
		}
	}
}
