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

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/schema"
)

// jobFile is a file in a checkpoint directory that the user gave. It names the job that uses the
// directory. Each node of the job holds a shared lock on it until its process ends. An agent that
// gets the exclusive lock is the only one, and writes the name of its own job.
const jobFile = ".elastic-job"

// lockFor locks the checkpoint directory for a job. It fails while a node of
// another job uses the directory, because the saves of the two jobs would be mixed up. The file is
// nil if the file system has no locks, or if another user created the file.
func lockFor(dir string, job schema.Job) (*os.File, error) {
	for {
		f, err := regular.Write(filepath.Join(dir, jobFile), os.O_RDWR)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, regular.ErrForeign) {
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
				return nil, nil // the file system has no locks
			}
		case has == string(job):
			return f, nil
		default:
			f.Close()
			return nil, problem.New(problem.CkptDir, "checkpoint directory %s: nodes of job %s save into it", dir, has).
				Because("saves of two jobs in one directory cannot be told apart").
				Cure("another --checkpoint-dir; to go on from what job %s saved: elastic ckpt get %[1]s DIR", has)
		}
	}
}

// share takes the shared lock, and returns the job that the file names. If no other agent has a
// lock, share first writes the name of job.
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
	if err := flock(f, syscall.LOCK_SH); err != nil { // waits for an agent that writes a name
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	return strings.TrimSpace(string(b)), err
}

// there reports whether f is still the file of that name. The last node of a job removes it.
func there(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, now)
}

// unlock releases the lock. The last node removes the file.
func unlock(f *os.File) {
	if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil && there(f) {
		_ = os.Remove(f.Name()) // if it stays, it names a job that has no node here
	}
	f.Close()
}

// flock is syscall.Flock, repeated when a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
