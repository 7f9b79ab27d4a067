// Package cli is the commands of elastic: what is typed, what is printed, and
// what the process ends with. The table of commands is here; each package below
// has a part: command (the line and its settings), target (the server and the
// job that are meant), screen (output), problem (errors), run and ckpt.
package cli

import "github.com/elasticd/elastic/internal/cli/command"

// Main runs one command line, without the program's name, and returns the exit status.
func Main(a command.App, args []string) int { return a.Main(args, commands()) }
