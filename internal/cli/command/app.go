// Package command parses command lines: the flags of each command in our spelling and that of other
// launchers, and settings from flags, variables and elastic.yaml. Only main ends the process.
package command

import (
	"context"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

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
	values := line.Values["output"]
	name, asJSON := line.Command, len(values) > 0 && values[len(values)-1] == "json"
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
	c := find(table, line.Command)
	if line.Help {
		return help(a.Stdout, c, line.topic, table)
	}
	k := &Call{App: a, Command: *c, Args: line.Args, Unused: line.Unused, typed: line}
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
}

// Call is one run of a command.
type Call struct {
	App
	Command Command
	Args    []string
	Unused  []string
	Out     screen.Printer

	typed typed
	file  map[string]Setting // settings of elastic.yaml, by the name of the flag
}

// Leave gives the call another environment, and takes the settings of elastic.yaml away.
func (c *Call) Leave(getenv func(string) string) { c.Getenv, c.file = getenv, nil }

func (c *Call) prepare(table []Command) error {
	c.Out = screen.Printer{Out: c.Stdout, Words: c.Stderr, Json: c.Setting("output").Given, Quiet: c.Truth("quiet"),
		Now: time.Now}
	c.Out.Terminal, c.Out.Width = screen.IsTerminal(c.Stdout), screen.Columns(c.Stdout)
	c.Out.Colour = c.Out.Terminal && !c.Truth("no-color") && c.Getenv("NO_COLOR") == "" &&
		c.Getenv("TERM") != "dumb"
	if err := c.readFile(table); err != nil {
		return err
	}
	for _, f := range c.Command.All() {
		if s := c.Setting(f.Name); s.Given && f.Values != nil && !slices.Contains(f.Values, s.Text) {
			return s.Refuse("not one of: %s", strings.Join(f.Values, ", "))
		}
	}
	return nil
}
