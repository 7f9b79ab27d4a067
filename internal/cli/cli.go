// Package cli is the table of the commands of elastic. show, change and setup have the commands;
// run and ckpt are commands with packages of their own. Below them are command (the line and its
// settings), target (the server and the job that are meant), screen (output) and problem (errors).
package cli

import "github.com/elasticd/elastic/internal/cli/command"

// Main runs one command line, without the program's name, and returns the exit status.
func Main(a command.App, args []string) int { return a.Main(args, commands()) }
