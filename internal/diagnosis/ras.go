package diagnosis

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// NCCL is what NCCL's service for health (RAS, from 2.28.7 on) says of one rank of the world.
type NCCL struct {
	Began  uint64 `json:"began"`  // collectives of all ranks that it began
	Calls  string `json:"calls"`  // how many of each kind, in each communicator
	Missed string `json:"missed"` // why the service has nothing of it; "": it has
}

// rasDump is the answer of the service in JSON, as far as it is read.
type rasDump struct {
	Communicators []struct {
		Size  int
		Ranks []struct {
			Rank   int
			Counts rasCounts `json:"collective_counts"`
		}
		Missing []struct {
			Rank   int
			Status struct {
				Unresponsive bool
				Dead         bool `json:"considered_dead"`
			}
		} `json:"missing_ranks"`
	}
}

type rasCounts struct{ Broadcast, Reduce, AllGather, ReduceScatter, AllReduce uint64 }

// mostRanks is the size of the largest world that a dump is read of.
const mostRanks = 1 << 16

// ParseRAS reads a dump of NCCL's RAS. The communicators of all ranks are those that have the most; the
// ranks of these are the ranks of the world. It returns nil if the dump tells nothing of some rank.
func ParseRAS(dump []byte) []NCCL {
	var d rasDump
	if json.Unmarshal(dump, &d) != nil {
		return nil
	}
	size := 0
	for _, c := range d.Communicators {
		size = max(size, c.Size)
	}
	if size < 2 || size > mostRanks {
		return nil
	}
	ranks := make([]NCCL, size)
	is := func(rank int) bool { return rank >= 0 && rank < size }
	for _, c := range d.Communicators {
		if c.Size != size {
			continue
		}
		for _, r := range c.Ranks {
			if is(r.Rank) {
				ranks[r.Rank].add(r.Counts)
			}
		}
		for _, r := range c.Missing {
			switch {
			case !is(r.Rank):
			case r.Status.Dead:
				ranks[r.Rank].Missed = "dead"
			case r.Status.Unresponsive:
				ranks[r.Rank].Missed = "unresponsive"
			}
		}
	}
	if slices.Contains(ranks, NCCL{}) {
		return nil
	}
	return ranks
}

// add takes in what a rank began in one communicator.
func (n *NCCL) add(c rasCounts) {
	var calls []string
	for _, kind := range []struct {
		name string
		n    uint64
	}{{"Broadcast", c.Broadcast}, {"Reduce", c.Reduce}, {"AllGather", c.AllGather},
		{"ReduceScatter", c.ReduceScatter}, {"AllReduce", c.AllReduce}} {
		if n.Began += kind.n; kind.n > 0 {
			calls = append(calls, fmt.Sprintf("%d %s", kind.n, kind.name))
		}
	}
	n.Calls = strings.TrimPrefix(n.Calls+"; "+cmp.Or(strings.Join(calls, ", "), "none"), "; ")
}

// missedByNCCL finds the only rank that NCCL's service does not reach.
func missedByNCCL(ranks []Standstill) (int, string) {
	found := -1
	for i, r := range ranks {
		if r.NCCL == nil || r.NCCL.Missed == "" {
			continue
		}
		if found >= 0 {
			return -1, "" // a machine or a network may be lost: another sign must decide
		}
		found = i
	}
	if found < 0 {
		return -1, ""
	}
	return found, "the service of NCCL in the other ranks says that it is " + ranks[found].NCCL.Missed
}

// lowestInNCCL finds the single rank that began fewer collectives of NCCL than the others. If all began
// as many, it finds the one that began others than most.
func lowestInNCCL(ranks []Standstill) (int, string) {
	least, most, alone := fewest(ranks, func(r Standstill) (int64, bool) {
		if r.NCCL == nil || r.NCCL.Missed != "" {
			return 0, false
		}
		return int64(min(r.NCCL.Began, math.MaxInt64)), true
	})
	if least < 0 {
		return -1, ""
	}
	if low, high := ranks[least].NCCL, ranks[most].NCCL; low.Began < high.Began {
		if !alone {
			return -1, "" // several ranks are behind: another sign must decide
		}
		return least, fmt.Sprintf("it began %d collectives of NCCL, others %d", low.Began, high.Began)
	}
	return findDifferent(ranks, func(r Standstill) string { return r.NCCL.Calls },
		func(mine, theirs string) string {
			return fmt.Sprintf("the collectives of NCCL that it began are %s, and of the others %s", mine, theirs)
		})
}
