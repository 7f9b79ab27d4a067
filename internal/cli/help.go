package cli

import (
	"fmt"
	"io"
	"strings"
)

const intro = `elastic keeps a training job going while its nodes come and go.

  elastic run --np=2 --job-id=x train     on each node, or twice on one machine
  elastic scale --np=4                    from anywhere
  elastic status                          what is happening, and why

commands:
`

// help says what there is, of one command or, for nil, of all.
func help(w io.Writer, cmd *command, table []command) error {
	var b strings.Builder
	if cmd == nil {
		b.WriteString(intro)
		for _, c := range table {
			fmt.Fprintf(&b, "  %-8s %s\n", c.name, c.usage)
		}
		b.WriteString("\nelastic COMMAND --help says more. \"-\" and \"_\" are the same in flags.\n")
	} else {
		fmt.Fprintf(&b, "elastic %s [flags] %s\n  %s\n", cmd.name, cmd.args, cmd.usage)
		common := map[string]bool{}
		for _, f := range everywhere() {
			common[f.name] = true
		}
		describe(&b, "\nflags:\n", cmd.flags, func(f flag) bool { return !common[f.name] || f.name == "state-dir" })
		describe(&b, "\nflags of every command:\n", cmd.flags, func(f flag) bool { return common[f.name] && f.name != "state-dir" })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describe(b *strings.Builder, title string, flags []flag, which func(flag) bool) {
	for _, f := range flags {
		if f.hidden || !which(f) {
			continue
		}
		b.WriteString(title)
		title = ""
		name := "--" + f.name
		if f.short != "" {
			name = "-" + f.short + ", " + name
		}
		if f.arg != "" {
			name += " " + f.arg
		}
		fmt.Fprintf(b, "  %-28s %s\n", name, f.usage)
	}
}
