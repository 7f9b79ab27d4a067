package command

import (
	"fmt"
	"io"
	"strings"
)

// Man writes the manual page elastic(1) from the table of commands.
func Man(w io.Writer, version string, table []Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH ELASTIC 1 \"\" \"elastic %s\"\n", roff(version))
	b.WriteString(`.SH NAME
elastic \- keep a training job going while its nodes come and go
.SH SYNOPSIS
`)
	for _, c := range table {
		fmt.Fprintf(&b, ".B elastic %s\n[flags] %s\n.br\n", c.Name, roff(c.Args))
	}
	b.WriteString(`.SH DESCRIPTION
.B elastic run
on each node, or twice on one machine, trains a job. Nodes may be lost, join and leave; the others go on
from the newest checkpoint. "\-" and "_" are the same in flags.
A value comes from the flag, else from the environment, else from
.IR elastic.yaml ,
else it is the default.
.SH COMMANDS
`)
	for _, c := range table {
		fmt.Fprintf(&b, ".SS %s\n%s.\n", roff(c.Name), roff(c.Usage))
		manFlags(&b, c.Flags)
	}
	b.WriteString(".SH FLAGS OF EVERY COMMAND\n")
	manFlags(&b, Everywhere())
	b.WriteString(`.SH FILES
.TP
.I elastic.yaml
in the working directory: settings by the names of flags, as
.BR "np: 2:4" .
.TP
.I log/workerlog.N
output of the worker with local rank N.
.SH EXIT STATUS
0: the command did it.
1: it failed.
2: usage; nothing was changed.
4: not allowed.
.PP
.B run
also: 75, this node left and the job goes on; 93, a restart does not cure it; 124, a limit passed;
125, failure before any worker
ran; 126, 127, the program cannot be run, is not found; else the status of the worker that failed.
`)
	_, err := io.WriteString(w, b.String())
	return err
}

// manFlags writes one paragraph for each flag.
func manFlags(b *strings.Builder, flags []Flag) {
	for _, f := range flags {
		name := "--" + f.Name
		if f.Short != "" {
			name = "-" + f.Short + ", " + name
		}
		fmt.Fprintf(b, ".TP\n.B %s\n", roff(strings.TrimSpace(name+" "+f.Arg)))
		text := f.Usage + "."
		if len(f.Values) > 1 {
			text += " One of " + strings.Join(f.Values, ", ") + "."
		}
		if len(f.Same) > 0 {
			text += " Also --" + strings.Join(f.Same, ", --") + "."
		}
		if len(f.Env) > 0 {
			text += " From the environment: " + strings.Join(f.Env, ", ") + "."
		}
		b.WriteString(roff(text) + "\n")
	}
}

// roff escapes text for a manual page, in ASCII.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	var b strings.Builder
	for _, r := range text {
		if r > '~' {
			fmt.Fprintf(&b, `\[u%04X]`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
