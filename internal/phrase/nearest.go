package phrase

// Nearest returns the name that is most similar to word, "" if none is similar.
func Nearest(word string, names []string) string {
	best, most := "", min(1+len(word)/3, len(word)-1) // a word of one letter is like any other
	for _, n := range names {
		if d := distance(word, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted, changed or swapped with the next one
// to turn a into b.
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
