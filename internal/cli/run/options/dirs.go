package options

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
)

// keptLogs is how many rotated files of each worker's output are kept, of 256 MiB each.
const keptLogs = 8

// dirs sets the directories, and checks that this node can write to them.
func dirs(c *command.Call, o *node.Options) error {
	state, err := local.State(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return err
	}
	usable := writable
	if c.Truth("dry-run") {
		usable = checkWritable
	}
	if err := usable(state); err != nil {
		return problem.New(problem.StateDir, "state directory: %v", err).
			Of(err).Cure("--state-dir=DIR, on a disk of this machine")
	}
	o.StateDir, o.LogDir = state, "log"
	if strings.HasPrefix(state, local.Homeless()) {
		c.Out.Say("elastic: no home directory that can be written: what this machine keeps is in %s; it "+
			"lasts as long as that directory (--state-dir=DIR)", local.Homeless())
	}
	if l := c.Setting("log-dir"); l.Given {
		o.LogDir = l.Text
	}
	if err := checkWritable(o.LogDir); errors.Is(err, syscall.EACCES) && !c.Setting("log-dir").Given {
		c.Out.Say("elastic: the working directory cannot be written: logs are in %s (--log-dir=DIR)",
			filepath.Join(state, "log"))
		o.LogDir = filepath.Join(state, "log")
	}
	o.SplitLogs = c.Truth("split-logs")
	if o.LogKeep, err = c.Setting("log-keep").Number(keptLogs, 1); err != nil {
		return err
	}
	if err := usable(o.LogDir); err != nil {
		return problem.New(problem.LogDir, "log directory: %v", err).Of(err).Cure("--log-dir=DIR")
	}
	if d := c.Setting("checkpoint-dir"); d.Given {
		if d.Text == "" {
			return d.Refuse("an empty path")
		}
		if o.CheckpointDir, err = filepath.Abs(d.Text); err == nil {
			err = usable(o.CheckpointDir)
		}
		if err != nil {
			return problem.New(problem.CkptDir, "checkpoint directory: %v", err).
				Of(err).Because("workers save there").Cure("%s", roomFor(err))
		}
	}
	return nil
}

// roomFor returns the fix for a checkpoint directory that cannot be used.
func roomFor(err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return "--checkpoint-dir=DIR in a file system that is mounted for writing, or mount this one so"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on its disk, or --checkpoint-dir=DIR on another one"
	}
	return "--checkpoint-dir=DIR that can be written"
}

// writable creates dir and writes a byte into it: only a write finds a full disk.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".elastic-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write([]byte{'\n'})
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// checkWritable tests like writable, without creating dir: it tests the nearest parent that exists.
func checkWritable(dir string) error {
	for {
		info, err := os.Stat(dir)
		parent := filepath.Dir(dir)
		switch {
		case err == nil && !info.IsDir():
			return &os.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		case err == nil:
			if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
				return &os.PathError{Op: "write", Path: dir, Err: err}
			}
			return nil
		case !os.IsNotExist(err) || parent == dir:
			return err
		}
		dir = parent
	}
}
