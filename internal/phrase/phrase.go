// Package phrase makes parts of messages: numbers with nouns ("1 node", "2 nodes"), short lists of
// names, and text that is safe for terminals.
package phrase

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun, in the plural if necessary: "1 node", "2 copies".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, plural(noun))
}

func plural(noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	if y && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		return stem + "ies"
	}
	return noun + "s"
}

// most is how many names a list shows.
const most = 8

// List joins names with commas. It shows the first eight, and how many more there are.
func List(names []string) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
