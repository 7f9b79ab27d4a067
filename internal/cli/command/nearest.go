package command

import (
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
)

func unknownCommand(word string, table []Command) *problem.Error {
	var names []string
	for _, c := range table {
		if c.Name != "stop" && c.Name != "rm" { // what destroys is never suggested
			names = append(names, c.Name)
		}
	}
	e := problem.New(problem.Usage, "unknown command %q", word).Cure("elastic --help")
	if fix := elsewhere()[word]; fix != "" {
		e.Cure("%s", fix)
	} else if near := phrase.Nearest(word, names); near != "" {
		e.Cure("did you mean elastic %s?", near)
	} else if strings.ContainsAny(word, "./") {
		e.Cure("elastic run %s", word)
	}
	return e
}

// elsewhere has the words that other tools use for our commands. What destroys is named too: the user
// has asked for it by its meaning, not by a slip of the finger.
func elsewhere() map[string]string {
	run := "the same `elastic run` line on each node: a job begins, is joined and goes on with it"
	jobs := "elastic jobs lists them; elastic nodes lists the nodes of one"
	words := map[string]string{
		"metrics": "elasticd serves them at /metrics of its --http address",
		"pause":   "elastic stop saves and ends the job; the same `elastic run` line goes on from there",
		"leave":   "Ctrl-C in its terminal: the node saves and leaves; from elsewhere: elastic drain NODE",
		"wait":    "elastic status --watch ends with the job",
		"tail":    "elastic logs --follow", "history": "elastic events",
		"uncordon": "elastic admit NODE", "undrain": "elastic admit NODE",
		"attach": "elastic logs --follow, or elastic run --tty for a debugger",
	}
	for _, s := range []struct{ fix, words string }{
		{run, "start launch submit join resume"}, {jobs, "list ls ps"},
		{"elastic top, elastic page, or elastic status --watch", "watch monitor dashboard ui"},
		{"elastic stop saves and ends a job", "kill cancel terminate abort"},
		{"elastic rm removes a job without nodes", "delete remove del"},
		{"elastic status, or elastic explain with reasons", "describe inspect show info get"},
		{"elastic drain NODE", "cordon evict exclude"},
		{"elastic scale --np=N", "resize rescale"},
		{"elastic ckpt restore N goes back to a checkpoint", "rollback restore"},
		{"--server on each command, or ELASTIC_SERVER", "config context login"},
	} {
		for _, w := range strings.Fields(s.words) {
			words[w] = s.fix
		}
	}
	return words
}

func unknownFlag(word, name string, cmd *Command, all spelling) *problem.Error {
	typed, _, _ := strings.Cut(word, "=")
	e := problem.New(problem.Usage, "unknown flag %s", typed)
	if g, ok := removed()[name]; ok {
		return e.Because("%s", g.why).Cure("%s", g.fix)
	}
	if cmd != nil {
		all = spell(cmd.All())
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
