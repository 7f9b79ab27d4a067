package setup

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
)

// Install is the command that copies the program into a directory of PATH.
func Install() command.Command {
	return command.Command{Name: "install", Args: "DIR", Most: 1,
		Usage:  "copy elastic into DIR, for an image without it",
		Action: installAction}
}

// installAction copies this program and the programs in its directory. An init container of
// Kubernetes can run it, because it needs no shell.
func installAction(_ context.Context, c *command.Call) error {
	if len(c.Args) != 1 {
		return problem.New(problem.Usage, "install needs a directory").Cure("elastic install DIR")
	}
	self, err := os.Executable()
	if err != nil {
		return problem.New(problem.Failed, "cannot find the elastic program: %v", err)
	}
	if err := os.MkdirAll(c.Args[0], 0o755); err != nil {
		return problem.New(problem.Failed, "cannot make %s: %v", c.Args[0], err)
	}
	for _, name := range []string{"elastic", "elasticd", "elastic-demo"} {
		from := filepath.Join(filepath.Dir(self), name)
		if name == "elastic" {
			from = self
		} else if _, err := os.Stat(from); err != nil {
			continue // an image may not have them
		}
		if err := copyProgram(from, filepath.Join(c.Args[0], name)); err != nil {
			return problem.New(problem.Failed, "cannot copy %s: %v", name, err)
		}
	}
	c.Out.Say("elastic is in %s", c.Args[0])
	return nil
}

// copyProgram copies an executable file. Other processes see the complete file or none.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // fails after the rename, when the file has its new name
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Chmod(0o755); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
