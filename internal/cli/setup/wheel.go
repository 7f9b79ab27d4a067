package setup

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/python"
)

// Wheel is the command that writes the wheel for pip.
func Wheel() command.Command {
	return command.Command{Name: "wheel", Args: "[DIR]", Most: 1,
		Usage:  "write a wheel for pip into DIR (.): elastic, the programs beside it, and import elastic",
		Action: wheelAction}
}

// wheelAction writes the helper and the programs, or the helper alone if a program is missing.
func wheelAction(_ context.Context, c *command.Call) error {
	dir := "."
	if len(c.Args) == 1 {
		dir = c.Args[0]
	}
	self, err := os.Executable()
	if err != nil {
		return problem.New(problem.Failed, "cannot find the elastic program: %v", err)
	}
	programs, missing, err := python.Programs(self)
	if err != nil {
		return problem.New(problem.Failed, "cannot read the programs: %v", err)
	}
	wheel := python.Wheel{Machine: runtime.GOARCH, Programs: programs}
	if len(missing) > 0 {
		wheel.Programs = nil
		c.Out.Say("%s is not beside %s: this wheel has import elastic, and no programs",
			strings.Join(missing, ", "), self)
	}
	data, err := wheel.Bytes()
	if err != nil {
		return problem.New(problem.Failed, "cannot make the wheel: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return problem.New(problem.Failed, "cannot make %s: %v", dir, err)
	}
	file := filepath.Join(dir, wheel.Name())
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return problem.New(problem.Failed, "cannot write %s: %v", file, err)
	}
	if c.Out.Json {
		return c.Out.Object(map[string]string{"file": file})
	}
	return c.Out.Line("%s", file)
}
