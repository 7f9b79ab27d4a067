package logs

import "slices"

// Folded is one line that one or several ranks wrote.
type Folded struct {
	Ranks []int // ascending
	Text  string
}

// lookahead is how many lines of its own a rank may have before a line that is still folded.
const lookahead = 32

// Fold merges the lines of several ranks. It keeps the order of each rank. A line that several
// ranks wrote appears once.
func Fold(of map[int][]string) []Folded {
	ranks := []int{}
	for r := range of {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	rest := map[int][]string{}
	for r, lines := range of {
		rest[r] = lines
	}
	var out []Folded
	take := func(r int) string {
		text := rest[r][0]
		rest[r] = rest[r][1:]
		return text
	}
	for _, first := range ranks {
		for len(rest[first]) > 0 {
			text := rest[first][0]
			line := Folded{Ranks: []int{first}, Text: text}
			for _, r := range ranks {
				at := slices.Index(rest[r][:min(lookahead, len(rest[r]))], text)
				if r == first || at < 0 || shared(rest, r, at) {
					continue
				}
				for range at {
					out = append(out, Folded{[]int{r}, take(r)})
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
func shared(rest map[int][]string, rank, n int) bool {
	for other, lines := range rest {
		if other == rank {
			continue
		}
		ahead := lines[:min(lookahead, len(lines))]
		if slices.ContainsFunc(rest[rank][:n],
			func(text string) bool { return slices.Contains(ahead, text) }) {
			return true
		}
	}
	return false
}
