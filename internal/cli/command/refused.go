package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/problem"
)

// explain adds a reason and a fix to an error of the command line that has none. They come from
// the usage of the flag, else of the command.
func explain(err error, name string, table []Command) error {
	if err == nil {
		return nil
	}
	e := screen.KnownProblem(err)
	if e.Status != problem.Usage.Status() || e.Why != "" && e.Fix != "" {
		return err
	}
	c := find(table, name)
	if c == nil {
		return fill(e, "nothing was done", "elastic help lists the commands")
	}
	help := fmt.Sprintf("elastic %s --help", c.Name)
	said, _, _ := strings.Cut(strings.TrimLeft(e.Message, "-"), "=")
	said, _, _ = strings.Cut(said, ":")
	said, _, _ = strings.Cut(said, " ")
	flags := c.All()
	at := slices.IndexFunc(flags,
		func(f Flag) bool { return strings.HasPrefix(e.Message, "-") && f.Name == said })
	if at < 0 {
		takes := strings.TrimSpace("elastic " + c.Name + " " + c.Args)
		return fill(e, fmt.Sprintf("%s: %s", takes, c.Usage), help+" shows what it takes")
	}
	f := flags[at]
	if f.Arg == "" {
		return fill(e, fmt.Sprintf("--%s: %s", f.Name, f.Usage),
			fmt.Sprintf("--%s, or leave it out; %s", f.Name, help))
	}
	return fill(e, fmt.Sprintf("--%s is: %s", f.Name, f.Usage),
		fmt.Sprintf("--%s=%s; %s", f.Name, f.Arg, help))
}

func fill(e *problem.Error, why, fix string) error {
	if e.Why == "" {
		e.Why = why
	}
	if e.Fix == "" {
		e.Fix = fix
	}
	return e
}

// commandOf returns the first word of a line that names a command, or "".
func commandOf(args []string, table []Command) string {
	for _, w := range args {
		if find(table, w) != nil {
			return w
		}
	}
	return ""
}
