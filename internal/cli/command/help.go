package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/elasticd/elastic/internal/cli/screen"
)

const intro = `elastic keeps a training job going while its nodes come and go.

  elastic run --np=2 --job-id=x train     on each node, or twice on one machine
  elastic scale --np=4                    from anywhere
  elastic status                          what is happening, and why

commands:
`

// help prints the help of one command, or of all commands if cmd is nil.
func help(w io.Writer, cmd *Command, table []Command) error {
	var b strings.Builder
	if cmd == nil {
		b.WriteString(intro)
		for _, c := range table {
			fmt.Fprintf(&b, "  %-10s %s\n", c.Name, c.Usage)
		}
		b.WriteString("\nelastic COMMAND --help lists its flags. \"-\" and \"_\" are the same in flags.\n")
	} else {
		fmt.Fprintf(&b, "elastic %s [flags] %s\n  %s\n", cmd.Name, cmd.Args, cmd.Usage)
		common := map[string]bool{}
		for _, f := range Everywhere() {
			common[f.Name] = true
		}
		describe(&b, "\nflags:\n", cmd.Flags,
			func(f Flag) bool { return !common[f.Name] || f.Name == "state-dir" })
		describe(&b, "\nflags of every command:\n", cmd.Flags, func(f Flag) bool {
			return common[f.Name] && f.Name != "state-dir"
		})
	}
	_, err := io.WriteString(w, fit(b.String(), screen.Columns(w)))
	return err
}

// usageAt is the column in which the usage of a flag starts.
const usageAt = 31

// fit breaks lines that are wider than the terminal. A usage continues in its own column.
func fit(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := 2
		if strings.HasPrefix(line, "  -") {
			indent = usageAt
		}
		b.WriteString(screen.Fold(strings.TrimSuffix(line, "\n"), columns, indent) + "\n")
	}
	return b.String()
}

func describe(b *strings.Builder, title string, flags []Flag, which func(Flag) bool) {
	for _, f := range flags {
		if f.hidden || !which(f) {
			continue
		}
		b.WriteString(title)
		title = ""
		name := "--" + f.Name
		if f.Short != "" {
			name = "-" + f.Short + ", " + name
		}
		if f.Arg != "" {
			name += " " + f.Arg
		}
		fmt.Fprintf(b, "  %-28s %s\n", name, f.Usage)
	}
}
