package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/screen"
)

const intro = `elastic keeps a training job going while its nodes come and go.

  elastic run --np=2 --job-id=x train.py  on each node, or twice on one machine
  elastic scale --np=4                    from anywhere
  elastic status                          what is happening, and why

commands:
`

// help prints the help of one command, or of all commands if cmd is nil. topic is a group of flags that
// the help leaves out; "": all others.
func help(w io.Writer, cmd *Command, topic string, table []Command) error {
	var b strings.Builder
	switch {
	case cmd == nil:
		b.WriteString(intro)
		for _, c := range table {
			fmt.Fprintf(&b, "  %-10s %s\n", c.Name, c.Usage)
		}
		b.WriteString("\nelastic COMMAND --help lists its flags. \"-\" and \"_\" are the same in flags.\n")
	case topic != "":
		fmt.Fprintf(&b, "elastic %s [flags] %s\n  %s\n", cmd.Name, cmd.Args, cmd.Usage)
		describe(&b, "\nflags for users of "+topic+":\n", cmd.Flags, func(f Flag) bool { return f.Group == topic })
	default:
		fmt.Fprintf(&b, "elastic %s [flags] %s\n  %s\n", cmd.Name, cmd.Args, cmd.Usage)
		describeAll(&b, cmd)
	}
	_, err := io.WriteString(w, fit(b.String(), screen.Columns(w)))
	return err
}

// describeAll lists the flags of a command: its own, by group, and those of every command.
func describeAll(b *strings.Builder, cmd *Command) {
	var groups, apart []string
	for _, f := range cmd.Flags {
		switch {
		case f.Apart && !slices.Contains(apart, f.Group):
			apart = append(apart, f.Group)
		case !f.Apart && !slices.Contains(groups, f.Group):
			groups = append(groups, f.Group)
		}
	}
	for _, g := range groups {
		title := "\n" + g + ":\n"
		if g == "" {
			title = "\nflags:\n"
		}
		describe(b, title, cmd.Flags, func(f Flag) bool { return f.Group == g })
	}
	describe(b, "\nflags of every command:\n", cmd.All()[len(cmd.Flags):], func(Flag) bool { return true })
	if len(apart) > 0 {
		fmt.Fprintf(b, "\nflags that users of other launchers know: --help=%s\n", strings.Join(apart, ", --help="))
	}
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
