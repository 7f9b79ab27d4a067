package cli

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/version"
)

func completionCommand() command.Command {
	return command.Command{Name: "completion", Args: "bash|zsh|fish", Most: -1, // the words of the line
		Usage:  "write the script that completes command lines in a shell",
		Action: completionAction, File: command.FileNone}
}

// completionAction writes the script of a shell, or for such a script what `words -- WORD…` can go on with.
func completionAction(_ context.Context, c *command.Call) error {
	if len(c.Args) > 1 && c.Args[0] == "words" {
		return command.Complete(c.Stdout, c.Args[1:], jobsHere(c), commands())
	}
	if len(c.Args) != 1 {
		return problem.New(problem.Usage, "completion needs a shell").
			Cure("source <(elastic completion bash); also zsh, fish")
	}
	script := command.Completion(c.Args[0])
	if script == "" {
		return problem.New(problem.Usage, "no completion for %s", c.Args[0]).Cure("bash, zsh or fish")
	}
	_, err := io.WriteString(c.Stdout, script)
	return err
}

// jobsHere returns the jobs of which a node ran on a machine that shares the state directory. A directory
// NAME~UID is of an earlier job of the name.
func jobsHere(c *command.Call) (names []string) {
	state, err := local.State(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return nil
	}
	dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(state), "*/nodes/*/jobs/*")) // an error is no suggestion
	for _, d := range dirs {
		if name := filepath.Base(d); !strings.Contains(name, "~") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func manCommand() command.Command {
	return command.Command{Name: "man", Usage: "write the manual page elastic(1); elastic man | man -l - shows it",
		Action: manAction, File: command.FileNone}
}

func manAction(_ context.Context, c *command.Call) error {
	return command.Man(c.Stdout, version.String(), commands())
}
