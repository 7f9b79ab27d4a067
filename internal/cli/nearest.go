package cli

import (
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
)

func unknownCommand(word string, table []command) *Error {
	var names []string
	for _, c := range table {
		names = append(names, c.name)
	}
	e := fail(Usage, "unknown command %q", word).cure("elastic --help")
	if near := phrase.Nearest(word, names); near != "" {
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
	if near := phrase.Nearest(name, names); near != "" {
		return e.cure("did you mean --%s?", near)
	}
	if cmd == nil {
		return e.cure("elastic --help")
	}
	return e.cure("elastic %s --help", cmd.name)
}
