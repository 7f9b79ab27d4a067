// Package cli has the table of the commands of elastic. The packages show, change, setup, run and
// ckpt have the commands. They use command (command line and settings), target (server and job) and
// screen (output and errors).
package cli

import "github.com/elasticd/elastic/internal/cli/command"

// Main runs one command line without the program's name, and returns the exit status.
func Main(a command.App, args []string) int { return a.Main(args, commands()) }
