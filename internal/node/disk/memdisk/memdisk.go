// Package memdisk provides the state directory of a machine in memory, for tests and simulations.
// Processes on the machine die, and the machine loses power: then its files are what was synced.
package memdisk

import (
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// Machine has a state directory, which outlives processes.
type Machine struct {
	mu    sync.Mutex
	tree  *memfs.FS
	locks map[string]*Process
}

// New returns a machine with an empty disk, whose state directory has the id host.
func New(host string) *Machine {
	m := &Machine{tree: memfs.New(), locks: map[string]*Process{}}
	p := m.Process()
	if err := errors.Join(p.WriteFile("host", []byte(host)), p.SyncDir(".")); err != nil {
		panic(err) // nothing fails yet
	}
	return m
}

// Tree returns the state directory. It is another one after the machine lost power.
func (m *Machine) Tree() *memfs.FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tree
}

// Crash ends all processes, as a loss of power does. names is called for each directory: if it returns
// true, its newest names survive, else the synced ones.
func (m *Machine) Crash(names func() bool) {
	was := m.Tree()
	hook := was.Set(func(string, string) error { return errDead }, 0) // for ever: its processes have ended
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tree = was.Crash(names)
	m.tree.Set(hook, 1<<40)
	clear(m.locks)
}

// errDead is the error of each operation of a process that has ended.
var errDead = errors.New("the process has ended")

// Process is the state directory as one process sees it. It implements disk.Files.
type Process struct {
	m    *Machine
	tree *memfs.FS
	disk *dirfs.Disk

	mu   sync.Mutex
	dead bool
}

// Process starts a process.
func (m *Machine) Process() *Process {
	p := &Process{m: m}
	tree, err := m.Tree().View(".", p.alive)
	if err != nil {
		tree = memfs.New() // the disk fails from the start, so that nothing of it is seen
	}
	p.tree, p.disk = tree, dirfs.NewDisk(tree, "")
	return p
}

func (p *Process) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	return nil
}

// Kill ends the process. Its locks are free, and nothing that it still does reaches the disk.
func (p *Process) Kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for name, by := range p.m.locks {
		if by == p {
			delete(p.m.locks, name)
		}
	}
}

// most is the most bytes of a file that ReadFile reads.
const most = 1 << 30

func (p *Process) ReadFile(name string) ([]byte, error) { return p.disk.ReadFile(name, most) }

func (p *Process) WriteFile(name string, b []byte) error {
	if err := p.disk.Discard(name); err != nil {
		return err
	}
	f, err := p.tree.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (p *Process) Mkdir(name string) error               { return p.tree.Mkdir(name, 0o700) }
func (p *Process) Rename(old, new string) error          { return p.tree.Rename(old, new) }
func (p *Process) Link(old, new string) error            { return p.tree.Link(old, new) }
func (p *Process) Remove(name string) error              { return p.tree.Remove(name) }
func (p *Process) RemoveAll(name string) error           { return p.disk.RemoveAll(name) }
func (p *Process) SyncDir(name string) error             { return p.tree.SyncDir(name) }
func (p *Process) Stat(name string) (fs.FileInfo, error) { return p.tree.Lstat(name) }

func (p *Process) ReadDir(name string) ([]fs.DirEntry, error) { return p.tree.ReadDir(name) }

func (p *Process) Tree(name string) (dirfs.FS, error) { return p.tree.View(name, p.alive) }

func (p *Process) Lock(name string) (func(), error) {
	if _, err := p.tree.Lstat(path.Dir(name)); err != nil {
		return nil, err
	}
	if err := p.alive(); err != nil {
		return nil, err
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if by := p.m.locks[name]; by != nil && by != p {
		return nil, message.ErrLocked
	}
	p.m.locks[name] = p
	return func() {
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		if p.m.locks[name] == p {
			delete(p.m.locks, name)
		}
	}, nil
}
