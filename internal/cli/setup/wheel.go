package setup

import (
	"context"
	"os"
	"path/filepath"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/python"
)

// Wheel is the command that writes the Python helper.
func Wheel() command.Command {
	return command.Command{Name: "wheel", Args: "[DIR]", Most: 1,
		Usage: "write the Python helper as a wheel for pip into DIR (.)", Action: wheelAction}
}

// wheelAction writes the helper for scripts that run without `elastic run`.
func wheelAction(_ context.Context, c *command.Call) error {
	dir := "."
	if len(c.Args) == 1 {
		dir = c.Args[0]
	}
	data, err := python.Wheel()
	if err != nil {
		return problem.New(problem.Failed, "cannot make the wheel: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return problem.New(problem.Failed, "cannot make %s: %v", dir, err)
	}
	file := filepath.Join(dir, python.WheelName)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return problem.New(problem.Failed, "cannot write %s: %v", file, err)
	}
	if c.Out.Json {
		return c.Out.Object(map[string]string{"file": file})
	}
	return c.Out.Line("%s", file)
}
