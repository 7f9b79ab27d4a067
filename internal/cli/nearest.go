package cli

import (
	"slices"
	"strings"
)

func unknownCommand(word string, table []command) *Error {
	var names []string
	for _, c := range table {
		names = append(names, c.name)
	}
	e := fail(Usage, "unknown command %q", word).cure("elastic --help")
	if near := nearest(word, names); near != "" {
		e.cure("did you mean elastic %s?", near)
	} else if strings.ContainsAny(word, "./") {
		e.cure("elastic run %s", word)
	}
	return e
}

func unknownFlag(word, name string, cmd *command, all spelling) *Error {
	typed, _, _ := strings.Cut(word, "=")
	e := fail(Usage, "unknown flag %s", typed)
	if g, ok := removed()[name]; ok {
		return e.because("%s", g.why).cure("%s", g.fix)
	}
	if cmd != nil {
		all = spell(cmd.flags)
	}
	var names []string
	for n := range all {
		if len(n) > 1 {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if near := nearest(name, names); near != "" {
		return e.cure("did you mean --%s?", near)
	}
	if cmd == nil {
		return e.cure("elastic --help")
	}
	return e.cure("elastic %s --help", cmd.name)
}

// nearest is the name that word was most likely meant to be, "" if none is close.
func nearest(word string, names []string) string {
	best, most := "", 1+len(word)/3
	for _, n := range names {
		if d := distance(word, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// distance is how many letters have to be put in, left out, changed or swapped with the next.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for k := range rows[1] {
		rows[1][k] = k
	}
	for i := 1; i <= len(a); i++ {
		older, old, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for k := 1; k <= len(b); k++ {
			cost := 1
			if a[i-1] == b[k-1] {
				cost = 0
			}
			row[k] = min(old[k]+1, row[k-1]+1, old[k-1]+cost)
			if i > 1 && k > 1 && a[i-1] == b[k-2] && a[i-2] == b[k-1] {
				row[k] = min(row[k], older[k-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
