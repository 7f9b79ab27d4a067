package run

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/run/options"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
)

// single is the lock of a run that has its job for itself. The zero value holds none.
type single struct{ file *os.File }

// Close unlocks the name of the job.
func (s single) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

// alone takes the name of a job that no other node can join, but that has a name of torchrun,
// Paddle or Slurm. If another run has it now, this one takes another name, so that two runs at once
// are two jobs, as with those launchers. The lock ends with the process.
func alone(c *command.Call, s *target.Server, o *node.Options) (single, error) {
	if s.Local == nil || !options.Alone(c, o) {
		return single{}, nil
	}
	f, err := os.OpenFile(filepath.Join(s.Local.Dir, "run-"+string(o.Job.Name)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return single{}, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		was := o.Job.Name
		options.Rename(o)
		c.Out.Say("elastic: job %s runs already; this run is job %s", was, o.Job.Name)
		return single{}, nil
	}
	return single{f}, err
}
