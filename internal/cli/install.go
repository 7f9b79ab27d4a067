package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

func installCommand() command {
	return command{name: "install", args: "DIR", most: 1, usage: "copy elastic into DIR, for an image without it",
		action: installAction}
}

// installAction copies this program and the programs beside it. An init container of Kubernetes runs it, in an image that has no shell.
func installAction(_ context.Context, c *call) error {
	if len(c.args) != 1 {
		return fail(Usage, "install needs a directory").cure("elastic install DIR")
	}
	self, err := os.Executable()
	if err != nil {
		return fail(Failed, "elastic cannot find itself: %v", err)
	}
	if err := os.MkdirAll(c.args[0], 0o755); err != nil {
		return fail(Failed, "cannot make %s: %v", c.args[0], err)
	}
	for _, name := range []string{"elastic", "elasticd", "train"} {
		from := filepath.Join(filepath.Dir(self), name)
		if name == "elastic" {
			from = self
		} else if _, err := os.Stat(from); err != nil {
			continue // an image may leave them out
		}
		if err := copyProgram(from, filepath.Join(c.args[0], name)); err != nil {
			return fail(Failed, "cannot copy %s: %v", name, err)
		}
	}
	c.out.say("elastic is in %s", c.args[0])
	return nil
}

// copyProgram copies an executable file. Another process never sees a part of it.
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
	defer os.Remove(out.Name()) // nothing is there any more after the rename
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
