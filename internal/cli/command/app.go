// Package command parses command lines: the flags of each command in our spelling and that of other
// launchers, and settings from flags, variables and elastic.yaml. No other package imports
// urfave/cli. It rearranges each line before urfave/cli parses it, parses all values itself, and
// turns off completion. Only main ends the process.
package command

import (
	"context"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/node"
)

// App has what elastic needs of its process.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Run            func(context.Context, node.Options) message.Result // runs the node of `elastic run`
}

// Main parses one command line without the program's name, runs its command, and returns the exit
// status.
func (a App) Main(args []string, table []Command) int {
	line, err := Normalise(args, table)
	name, asJSON := line.Command, line.json
	if err != nil {
		name, asJSON = commandOf(args, table), wantsJSON(args)
	} else {
		err = a.dispatch(line, table)
	}
	report := screen.Report
	if asJSON {
		report = screen.ReportJSON
	}
	return report(a.Stderr, explain(err, name, table))
}

// wantsJSON looks for -o json in a line that could not be parsed.
func wantsJSON(args []string) bool {
	return slices.ContainsFunc(args, func(w string) bool {
		return w == "json" || w == "-o=json" || w == "--output=json"
	})
}

func (a App) dispatch(line typed, table []Command) error {
	if line.Help {
		return help(a.Stdout, find(table, line.Command), line.topic, table)
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
		app.Commands = append(app.Commands, a.command(c, line, table))
	}
	return app.Run(line.Argv())
}

func usageError(_ *urfave.Context, err error, _ bool) error {
	return screen.New(screen.Usage, "%v", err)
}

func (a App) command(c Command, line typed, table []Command) *urfave.Command {
	u := &urfave.Command{
		Name: c.Name, HideHelp: true, OnUsageError: usageError,
		Action: func(ctx *urfave.Context) error {
			k := &Call{App: a, Command: c, Context: ctx, Args: ctx.Args().Slice(), Unused: line.Unused,
				spelled: line.spelled}
			if err := k.prepare(table); err != nil {
				return err
			}
			if c.Name == "run" { // the node handles the signals
				return c.Action(context.Background(), k)
			}
			interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
			defer stop()
			err := c.Action(interrupted, k)
			if interrupted.Err() != nil && err != nil {
				return screen.Exit{Status: 130}
			}
			return err
		},
	}
	for _, f := range c.Flags {
		switch f.Kind {
		case Boolean:
			u.Flags = append(u.Flags, &urfave.BoolFlag{Name: f.Name})
		case list:
			u.Flags = append(u.Flags, &urfave.StringSliceFlag{Name: f.Name})
		case value:
			u.Flags = append(u.Flags, &urfave.StringFlag{Name: f.Name})
		}
	}
	return u
}

// Call is one run of a command.
type Call struct {
	App
	Command Command
	Context *urfave.Context
	Args    []string
	Unused  []string
	Out     screen.Printer

	spelled map[string]string  // flags as they were typed
	file    map[string]Setting // settings of elastic.yaml, by the name of the flag
}

// Leave gives the call another environment, and takes the settings of elastic.yaml away.
func (c *Call) Leave(getenv func(string) string) { c.Getenv, c.file = getenv, nil }

func (c *Call) prepare(table []Command) error {
	o := c.Context.String("output")
	if c.Context.IsSet("output") && o != "json" {
		return screen.New(screen.Usage, "--output=%s: json is the only one", o)
	}
	c.Out = screen.Printer{Out: c.Stdout, Words: c.Stderr, Json: o == "json", Quiet: c.Context.Bool("quiet"),
		Now: time.Now}
	c.Out.Terminal, c.Out.Width = screen.IsTerminal(c.Stdout), screen.Columns(c.Stdout)
	c.Out.Colour = c.Out.Terminal && !c.Context.Bool("no-color") && c.Getenv("NO_COLOR") == "" &&
		c.Getenv("TERM") != "dumb"
	return c.readFile(table)
}
