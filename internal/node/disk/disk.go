// Package disk is the state directory of this host: the id of the host, the locks of its nodes, and
// the files that each node keeps of a job.
package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/schema"
)

// Disk is the state directory of this host, <state>/<host>, as far as one job is concerned.
type Disk struct {
	Dir  string
	job  schema.Job
	host string

	Server string // as given, for people

	mu sync.Mutex // orders calls of SetLastGeneration, so that the highest generation is written last
}

// Open opens the state directory dir for one job.
func Open(dir string, job schema.Job) (*Disk, error) {
	d := &Disk{Dir: dir, job: job}
	var err error
	d.host, err = d.hostID()
	return d, err
}

// JobDir returns the directory in which a node keeps its data of the job.
func (d *Disk) JobDir(node string) string {
	return filepath.Join(d.Dir, "nodes", node, "jobs", string(d.job))
}

// HostID returns the id of this state directory, which is random and made once. Agents with the same id
// share the locks of one disk.
func (d *Disk) HostID() string { return d.host }

// hostID reads the id of the state directory. It makes one if there is none.
func (d *Disk) hostID() (string, error) {
	path := filepath.Join(d.Dir, "host")
	for {
		b, err := os.ReadFile(path)
		if err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b)), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the id of this host: %w", err)
		}
		if err := os.MkdirAll(d.Dir, 0o700); err != nil {
			return "", fmt.Errorf("make the state directory: %w", err)
		}
		temp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
		if err := Publish(temp, temp, []byte(rand.Text()+"\n")); err != nil {
			return "", err
		}
		// The link fails if another agent made its id first. That id is used.
		err = os.Link(temp, path)
		os.Remove(temp)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("write the id of this host: %w", err)
		}
	}
}

// Lock takes the lock of a node. The system frees it when the process ends.
func (d *Disk) Lock(node string) (func(), error) {
	dir := d.JobDir(node)
	for {
		// MkdirAll returns ErrExist if another process removes the directory at this moment
		if err := os.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make the directory of node %s: %w", node, err)
		}
		unlock, err := lockDir(dir)
		switch {
		case err == nil || errors.Is(err, refusal.ErrLocked):
			return unlock, err
		case !errors.Is(err, fs.ErrNotExist): // else another process removed the directory
			return nil, fmt.Errorf("lock node %s: %w", node, err)
		}
	}
}

// lockDir takes the lock in dir. It fails with refusal.ErrLocked if another process has it. If the
// file was removed after it was opened, its lock protects nothing, and lockDir opens a new one.
func lockDir(dir string) (func(), error) {
	path := filepath.Join(dir, lockFile)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = refusal.ErrLocked
		}
		var mine, there fs.FileInfo
		if err == nil {
			mine, err = f.Stat()
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

// LastGeneration returns the highest generation that the node has seen, or 0.
func (d *Disk) LastGeneration(node string) (schema.Generation, error) {
	b, err := os.ReadFile(filepath.Join(d.JobDir(node), "generation"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the generation of node %s: %w", node, err)
	}
	g, err := schema.ParseGeneration(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s is damaged: %w; the job counts its generations itself: remove the file",
			filepath.Join(d.JobDir(node), "generation"), err)
	}
	return g, nil
}

// SetLastGeneration writes g durably, unless a higher generation was written before.
func (d *Disk) SetLastGeneration(node string, g schema.Generation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, err := d.LastGeneration(node)
	if err != nil || g <= old {
		return err
	}
	path := filepath.Join(d.JobDir(node), "generation")
	return Publish(path+".tmp", path, []byte(fmt.Sprintln(uint64(g))))
}

// Publish writes a file so that path always has either its old content or all of the new one.
func Publish(temp, path string, content []byte) error {
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if close := f.Close(); err == nil {
		err = close
	}
	if err == nil && temp != path {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
