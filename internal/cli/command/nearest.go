package command

import (
	"strings"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/phrase"
)

func unknownCommand(word string, table []Command) *problem.Error {
	var names []string
	for _, c := range table {
		if c.Name != "stop" && c.Name != "rm" { // what destroys is never suggested
			names = append(names, c.Name)
		}
	}
	e := problem.New(problem.Usage, "unknown command %q", word).Cure("elastic --help")
	if word == "metrics" {
		e.Cure("elasticd serves them at /metrics of its --http address")
	} else if near := phrase.Nearest(word, names); near != "" {
		e.Cure("did you mean elastic %s?", near)
	} else if strings.ContainsAny(word, "./") {
		e.Cure("elastic run %s", word)
	}
	return e
}

func unknownFlag(word, name string, cmd *Command, all spelling) *problem.Error {
	typed, _, _ := strings.Cut(word, "=")
	e := problem.New(problem.Usage, "unknown flag %s", typed)
	if g, ok := removed()[name]; ok {
		return e.Because("%s", g.why).Cure("%s", g.fix)
	}
	if cmd != nil {
		all = spell(cmd.Flags)
	}
	if fits := ambiguous(word, name, cmd); len(fits) > 1 {
		return e.Because("it begins %s", phrase.List(fits)).Cure("one of them")
	}
	if near := all.nearest(name); near != "" {
		return e.Cure("did you mean --%s?", near)
	}
	if cmd == nil {
		return e.Cure("elastic --help")
	}
	return e.Cure("elastic %s --help", cmd.Name)
}

// ambiguous returns the flags of run that a word begins.
func ambiguous(word, name string, cmd *Command) (fits []string) {
	if cmd == nil || cmd.Most >= 0 || len(name) < 2 || !strings.HasPrefix(word, "--") {
		return nil
	}
	r := reader{cmd: cmd, ignored: spell(Unused())}
	for _, f := range r.beginning(name) {
		fits = append(fits, "--"+f.Name)
	}
	return fits
}
