package saves

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/schema"
)

// jobFile is in a checkpoint directory that the user gave, and names the job that has it. Each node
// of that job holds a shared lock on it, until its process ends. An agent that gets it exclusively
// is alone and writes the name of its own job.
const jobFile = ".elastic-job"

// lockFor takes the checkpoint directory for a job: *refusal.DirTaken while a node of another job
// has it, whose saves would be taken for those of this one. nil where the file system has no locks,
// or another user made the file.
func lockFor(dir string, job schema.Job) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, jobFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrPermission) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("mark the checkpoint directory: %w", err)
		}
		has, err := share(f, job)
		switch {
		case err != nil || !there(f):
			f.Close()
			if err != nil {
				return nil, nil // no locks here
			}
		case has == string(job):
			return f, nil
		default:
			f.Close()
			return nil, &refusal.DirTaken{Dir: dir, Job: has}
		}
	}
}

// share takes the shared lock, and returns the job that the file names then. The file of an agent
// that is alone names its job.
func share(f *os.File, job schema.Job) (has string, err error) {
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		if err := f.Truncate(0); err != nil {
			return "", err
		}
		if _, err := f.WriteAt([]byte(job+"\n"), 0); err != nil {
			return "", err
		}
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", err
	}
	if err := flock(f, syscall.LOCK_SH); err != nil { // others have it exclusively while they write a name
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	return strings.TrimSpace(string(b)), err
}

// there reports whether the file still has its name: the last node of a job removes it.
func there(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, now)
}

// unlock gives the directory back. The last node removes the file.
func unlock(f *os.File) {
	if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil && there(f) {
		_ = os.Remove(f.Name()) // what stays names a job that has no node here
	}
	f.Close()
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
