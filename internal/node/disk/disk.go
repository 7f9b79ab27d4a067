// Package disk is the state directory of this host: the id of the host, the locks of its nodes, and
// the files that each node keeps of a job.
package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/schema"
)

// Disk is the state directory of this host, <state>/<host>, as far as one job is concerned.
type Disk struct {
	Dir   string // its path, for what is not done by Files
	files Files
	job   schema.Job
	host  string

	Server string // as given, or LocalServer

	mu sync.Mutex // orders writes, so that the highest generation and the newest memory are written last
}

// Open opens the state directory dir for one job. It makes the directory if there is none.
func Open(dir string, job schema.Job) (*Disk, error) {
	d, err := Of(hostFiles(dir), job)
	d.Dir, d.Server = dir, LocalServer
	return d, err
}

// Of opens a state directory for one job.
func Of(files Files, job schema.Job) (*Disk, error) {
	d := &Disk{files: files, job: job}
	var err error
	d.host, err = d.hostID()
	return d, err
}

// nodeDir is the directory in which a node keeps its data of the job.
func nodeDir(node string, job schema.Job) string {
	return path.Join(nodesDir, node, "jobs", string(job))
}

func (d *Disk) dirOf(node string) string { return nodeDir(node, d.job) }

// JobDir returns the path of the directory in which a node keeps its data of the job.
func (d *Disk) JobDir(node string) string { return filepath.Join(d.Dir, d.dirOf(node)) }

// HostID returns the id of this state directory, which is random and made once. Agents with the same id
// share the locks of one disk.
func (d *Disk) HostID() string { return d.host }

// hostID reads the id of the state directory. It makes one if there is none.
func (d *Disk) hostID() (string, error) {
	for {
		b, err := d.files.ReadFile(hostFile)
		if err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b)), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the id of this host: %w", err)
		}
		if err := d.files.Mkdir("."); err != nil {
			return "", fmt.Errorf("make the state directory: %w", err)
		}
		temp := fmt.Sprintf("%s.%d.tmp", hostFile, os.Getpid())
		err = d.files.WriteFile(temp, []byte(rand.Text()+"\n"))
		if err == nil {
			// The link fails if another agent made its id first. That id is used.
			if err = d.files.Link(temp, hostFile); errors.Is(err, fs.ErrExist) {
				err = nil
			}
			_ = d.files.Remove(temp) // if it stays, it does no harm
		}
		if err == nil {
			err = d.files.SyncDir(".")
		}
		if err != nil {
			return "", fmt.Errorf("write the id of this host: %w", err)
		}
	}
}

// Lock takes the lock of a node. The system frees it when the process ends.
func (d *Disk) Lock(node string) (func(), error) {
	dir := d.dirOf(node)
	for {
		// it returns ErrExist or ErrNotExist if another process removes the directory at this moment
		err := makeDir(d.files, dir)
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("make the directory of node %s: %w", node, err)
		}
		unlock, err := d.files.Lock(path.Join(dir, lockFile))
		switch {
		case err == nil || errors.Is(err, message.ErrLocked):
			return unlock, err
		case !errors.Is(err, fs.ErrNotExist): // else another process removed the directory
			return nil, fmt.Errorf("lock node %s: %w", node, err)
		}
	}
}

// Store is the directory of a node's chunk store.
type Store struct {
	files Files
	dir   string
}

// Store returns the directory of the chunk store of a node.
func (d *Disk) Store(node string) Store { return Store{d.files, path.Join(d.dirOf(node), StoreDir)} }

// Open opens the directory. It makes the directory if there is none.
func (s Store) Open() (dirfs.FS, error) {
	if err := makeDir(s.files, s.dir); err != nil {
		return nil, err
	}
	return s.files.Tree(s.dir)
}

// Stat describes a file or directory in the directory.
func (s Store) Stat(name string) (fs.FileInfo, error) { return s.files.Stat(path.Join(s.dir, name)) }

// LastGeneration returns the highest generation that the node has seen, or 0.
func (d *Disk) LastGeneration(node string) (schema.Generation, error) {
	b, err := d.files.ReadFile(path.Join(d.dirOf(node), generationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the generation of node %s: %w", node, err)
	}
	g, err := schema.ParseGeneration(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s is damaged: %w; the job counts its generations itself: remove the file",
			filepath.Join(d.JobDir(node), generationFile), err)
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
	return publish(d.files, path.Join(d.dirOf(node), generationFile), []byte(fmt.Sprintln(uint64(g))))
}

// makeDir makes a directory, durably.
func makeDir(files Files, dir string) error {
	if _, err := files.Stat(dir); err == nil {
		return nil
	}
	if err := files.Mkdir(dir); err != nil {
		return err
	}
	for dir != "." {
		dir = path.Dir(dir)
		if err := files.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// publish writes a file so that name always has either its old content or all of the new one.
func publish(files Files, name string, content []byte) error {
	temp := name + ".tmp"
	err := files.WriteFile(temp, content)
	if err == nil {
		err = files.Rename(temp, name)
	}
	if err == nil {
		err = files.SyncDir(path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path.Base(name), err)
	}
	return nil
}
