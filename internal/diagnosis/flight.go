package diagnosis

import (
	"fmt"
	"strings"
)

// Collective is the last collective that a rank started in the group of all ranks.
type Collective struct {
	Seq  int64  // number of collectives that it started
	Name string // "gloo:all_reduce"
}

// lowestCollective finds the single rank that started fewer collectives than the others. If all
// started as many, it finds the one whose last collective differs from that of most.
func lowestCollective(ranks []Standstill) (int, string) {
	least, most, alone := fewest(ranks, func(r Standstill) (int64, bool) {
		if r.Collective == nil {
			return 0, false
		}
		return r.Collective.Seq, true
	})
	if least < 0 {
		return -1, ""
	}
	if low, high := ranks[least].Collective, ranks[most].Collective; low.Seq < high.Seq {
		if !alone {
			return -1, "" // several ranks are behind: another sign must decide
		}
		reason := fmt.Sprintf("it began %d collectives, and others wait in the %s after that, %s",
			low.Seq, ordinal(high.Seq-low.Seq), high.Name)
		if at := topOfStack(mainThread(ranks[least].Stack)); at != "" {
			reason += "; it stands in " + at
		}
		return least, reason
	}
	return findDifferent(ranks, func(r Standstill) string {
		return fmt.Sprintf("collective %d, %s", r.Collective.Seq, r.Collective.Name)
	},
		func(mine, theirs string) string {
			_, name, _ := strings.Cut(theirs, ", ")
			return fmt.Sprintf("it waits in %s, which is %s for the others", mine, name)
		})
}

// fewest returns the rank that began the fewest collectives, and one that began the most. least is -1
// where the number of a rank is not known. alone reports whether no other rank began as few.
func fewest(ranks []Standstill, began func(Standstill) (int64, bool)) (least, most int, alone bool) {
	var low, high int64
	least, most = -1, -1
	for i, r := range ranks {
		n, known := began(r)
		switch {
		case !known:
			return -1, -1, false
		case i == 0 || n < low:
			least, low, alone = i, n, true
		case n == low:
			alone = false
		}
		if i == 0 || n > high {
			most, high = i, n
		}
	}
	return least, most, alone
}

// ordinal formats n as 1st, 2nd and so on.
func ordinal(n int64) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
