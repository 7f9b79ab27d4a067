package logs

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSpan is the largest span of ranks. A longer one is a typing error.
const maxSpan = 1 << 20

// ParseRanks parses numbers and spans, as 0,4-7.
func ParseRanks(text string) ([]int, bool) {
	ranks := []int{}
	for part := range strings.SplitSeq(text, ",") {
		low, high, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if span && err == nil {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last-first > maxSpan {
			return nil, false
		}
		for rank := first; rank <= last; rank++ {
			ranks = append(ranks, rank)
		}
	}
	return ranks, true
}

// Spans writes ranks in ascending order as 0,4-7.
func Spans(ranks []int) string {
	var parts []string
	for i := 0; i < len(ranks); {
		k := i
		for k+1 < len(ranks) && ranks[k+1] == ranks[k]+1 {
			k++
		}
		if k == i {
			parts = append(parts, strconv.Itoa(ranks[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ",")
}
