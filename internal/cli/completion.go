package cli

import (
	"context"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/version"
)

func completionCommand() command.Command {
	return command.Command{Name: "completion", Args: "bash|zsh|fish", Most: 1,
		Usage:  "write the script that completes command lines in a shell",
		Action: completionAction, File: command.FileNone}
}

func completionAction(_ context.Context, c *command.Call) error {
	if len(c.Args) != 1 {
		return screen.New(screen.Usage, "completion needs a shell").
			Cure("source <(elastic completion bash); also zsh, fish")
	}
	known, err := command.Completion(c.Stdout, c.Args[0], commands())
	if err == nil && !known {
		return screen.New(screen.Usage, "no completion for %s", c.Args[0]).Cure("bash, zsh or fish")
	}
	return err
}

func manCommand() command.Command {
	return command.Command{Name: "man", Usage: "write the manual page elastic(1); elastic man | man -l - shows it",
		Action: manAction, File: command.FileNone}
}

func manAction(_ context.Context, c *command.Call) error {
	return command.Man(c.Stdout, version.String(), commands())
}
