package memfs

import (
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Host is a machine with a state directory, which outlives processes. Processes on it die, and it loses
// power: then its files are what was synced.
type Host struct {
	locked error // of a lock that another process holds

	mu    sync.Mutex
	tree  *FS
	locks map[string]*Process
}

// NewHost returns one with an empty disk, whose state directory has the id.
func NewHost(id string, locked error) *Host {
	h := &Host{locked: locked, tree: New(), locks: map[string]*Process{}}
	p := h.Process()
	if err := errors.Join(p.WriteFile("host", []byte(id)), p.SyncDir(".")); err != nil {
		panic(err) // nothing fails yet
	}
	return h
}

// Tree returns the state directory. It is another one after the machine lost power.
func (h *Host) Tree() *FS {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tree
}

// Crash ends all processes, as a loss of power does. names is called for each directory: if it returns
// true, its newest names survive, else the synced ones.
func (h *Host) Crash(names func() bool) {
	was := h.Tree()
	hook := was.Set(func(string, string) error { return errDead }, 0) // for ever: its processes have ended
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tree = was.Crash(names)
	h.tree.Set(hook, 1<<40)
	clear(h.locks)
}

// errDead is the error of each operation of a process that has ended.
var errDead = errors.New("the process has ended")

// Process is the state directory as one process sees it. It implements disk.Files.
type Process struct {
	host *Host
	tree *FS
	disk *dirfs.Disk

	mu   sync.Mutex
	dead bool
}

// Process starts a process.
func (h *Host) Process() *Process {
	p := &Process{host: h}
	tree, err := h.Tree().View(".", p.alive)
	if err != nil {
		tree = New() // the disk fails from the start, so that nothing of it is seen
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
	p.host.mu.Lock()
	defer p.host.mu.Unlock()
	for name, by := range p.host.locks {
		if by == p {
			delete(p.host.locks, name)
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
	p.host.mu.Lock()
	defer p.host.mu.Unlock()
	if by := p.host.locks[name]; by != nil && by != p {
		return nil, p.host.locked
	}
	p.host.locks[name] = p
	return func() {
		p.host.mu.Lock()
		defer p.host.mu.Unlock()
		if p.host.locks[name] == p {
			delete(p.host.locks, name)
		}
	}, nil
}
