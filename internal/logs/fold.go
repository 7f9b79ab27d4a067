package logs

import (
	"slices"
	"time"
)

// Said is one line of a rank.
type Said struct {
	Text string
	Time time.Time // zero: not known
}

func (s Said) same(other Said) bool { return s.Text == other.Text }

// Folded is one line that one or several ranks wrote.
type Folded struct {
	Ranks []int // ascending
	Text  string
	Time  time.Time // of the first rank; zero: not known
}

// lookahead is how many lines of its own a rank may have before a line that is still folded.
const lookahead = 32

// Fold merges the lines of several ranks. It keeps the order of each rank. A line that several
// ranks wrote appears once.
func Fold(of map[int][]Said) []Folded {
	ranks := []int{}
	for r := range of {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	rest := map[int][]Said{}
	for r, lines := range of {
		rest[r] = lines
	}
	var out []Folded
	take := func(r int) Said {
		line := rest[r][0]
		rest[r] = rest[r][1:]
		return line
	}
	for _, first := range ranks {
		for len(rest[first]) > 0 {
			own := rest[first][0]
			line := Folded{[]int{first}, own.Text, own.Time}
			for _, r := range ranks {
				at := slices.IndexFunc(rest[r][:min(lookahead, len(rest[r]))], own.same)
				if r == first || at < 0 || shared(rest, r, at) {
					continue
				}
				for range at {
					its := take(r)
					out = append(out, Folded{[]int{r}, its.Text, its.Time})
				}
				take(r)
				line.Ranks = append(line.Ranks, r)
			}
			take(first)
			slices.Sort(line.Ranks)
			out = append(out, line)
		}
	}
	return out
}

// shared reports whether another rank also has one of the next n lines of rank.
func shared(rest map[int][]Said, rank, n int) bool {
	for other, lines := range rest {
		if other == rank {
			continue
		}
		ahead := lines[:min(lookahead, len(lines))]
		if slices.ContainsFunc(rest[rank][:n],
			func(line Said) bool { return slices.ContainsFunc(ahead, line.same) }) {
			return true
		}
	}
	return false
}
