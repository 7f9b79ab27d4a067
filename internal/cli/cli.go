// Package cli is the commands of elastic: what is typed, what is printed, and
// what the process ends with. It is the one package beside cmd/ that knows
// urfave/cli, and keeps its surprises to itself: the line is normalised first
// (args.go), all values are parsed here (settings.go), completion is off, and
// nothing below main ends the process.
package cli

import (
	"context"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/node"
)

// App is elastic without its process.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Run            func(context.Context, node.Options) machine.Result // the node of `elastic run`
}

// Main runs one command line, without the program's name, and returns the exit status.
func (a App) Main(args []string) int {
	table := commands()
	line, err := normalise(args, table)
	if err != nil {
		return report(a.Stderr, err, wantsJSON(args))
	}
	return report(a.Stderr, a.dispatch(line, table), line.json)
}

// wantsJSON looks for -o json in a line that could not be read to its end.
func wantsJSON(args []string) bool {
	return slices.ContainsFunc(args, func(w string) bool { return w == "json" || w == "-o=json" || w == "--output=json" })
}

func (a App) dispatch(line typed, table []command) error {
	if line.help {
		return help(a.Stdout, find(table, line.command), table)
	}
	app := &urfave.App{
		Name:                      "elastic",
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		Writer:                    a.Stdout,
		ErrWriter:                 a.Stderr,
		ExitErrHandler:            func(*urfave.Context, error) {},
		OnUsageError:              usageError,
	}
	for _, c := range table {
		app.Commands = append(app.Commands, a.command(c, line))
	}
	return app.Run(line.argv())
}

func usageError(_ *urfave.Context, err error, _ bool) error { return fail(Usage, "%v", err) }

func (a App) command(c command, line typed) *urfave.Command {
	u := &urfave.Command{
		Name: c.name, HideHelp: true, OnUsageError: usageError,
		Action: func(ctx *urfave.Context) error {
			k := &call{App: a, command: c, context: ctx, args: ctx.Args().Slice(), unused: line.unused}
			if err := k.prepare(); err != nil {
				return err
			}
			if c.name == "run" { // its signals are the node's
				return c.action(context.Background(), k)
			}
			interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
			defer stop()
			err := c.action(interrupted, k)
			if interrupted.Err() != nil && err != nil {
				return exit{130}
			}
			return err
		},
	}
	for _, f := range c.flags {
		switch f.kind {
		case boolean:
			u.Flags = append(u.Flags, &urfave.BoolFlag{Name: f.name})
		case list:
			u.Flags = append(u.Flags, &urfave.StringSliceFlag{Name: f.name})
		case value:
			u.Flags = append(u.Flags, &urfave.StringFlag{Name: f.name})
		}
	}
	return u
}

// call is one command on its way.
type call struct {
	App
	command command
	context *urfave.Context
	args    []string
	unused  []string
	out     printer
}

func (c *call) prepare() error {
	o := c.context.String("output")
	if c.context.IsSet("output") && o != "json" {
		return fail(Usage, "--output=%s: json is the only one", o)
	}
	c.out = printer{out: c.Stdout, words: c.Stderr, json: o == "json", quiet: c.context.Bool("quiet"), now: time.Now}
	c.out.terminal, c.out.width = isTerminal(c.Stdout), columns(c.Stdout)
	c.out.colour = c.out.terminal && !c.context.Bool("no-color") && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb"
	return nil
}
