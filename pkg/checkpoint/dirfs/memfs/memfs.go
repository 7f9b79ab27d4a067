// Package memfs provides a dirfs.FS in memory, for tests and simulations. It simulates a loss of
// power, and fails at the operation that a test chooses.
package memfs

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// FS is a tree in memory. After a crash a file has the bytes of its last sync. A directory has the
// names of its last SyncDir or, because a kernel may write them earlier, its newest names.
type FS struct {
	Machine *Machine
	Root    *Node
	gate    func() error // nil, or called before each operation, which fails with its error
}

// View returns the directory name of t as a tree of its own, whose operations fail while gate does: a
// process that was killed writes nothing more. gate may wait.
func (t *FS) View(name string, gate func() error) (*FS, error) {
	if _, err := t.ReadDir(name); err != nil {
		return nil, err
	}
	t.Machine.mu.Lock()
	defer t.Machine.mu.Unlock()
	n, err := t.there("open", name)
	return &FS{t.Machine, n, gate}, err
}

// Machine is the state that all trees of one machine share.
type Machine struct {
	mu    sync.Mutex
	Hook  func(op, name string) error // called before each operation, which fails with its error
	Free  int64                       // free bytes; writes do not reduce them
	inode uint64
}

// Set replaces the hook and the free space, also while the tree is in use. It returns the old hook.
func (t *FS) Set(hook func(op, name string) error, space int64) func(op, name string) error {
	t.Machine.mu.Lock()
	defer t.Machine.mu.Unlock()
	was := t.Machine.Hook
	t.Machine.Hook, t.Machine.Free = hook, space
	return was
}

// KeepNotes makes t keep notes. Without it Notes returns none.
func (t *FS) KeepNotes() {
	t.Machine.mu.Lock()
	defer t.Machine.mu.Unlock()
	t.Root.noted = true
}

// Notes implements dirfs.Noter.
func (t *FS) Notes(n int) []dirfs.Note {
	t.Machine.mu.Lock()
	defer t.Machine.mu.Unlock()
	return t.Root.notes[n:len(t.Root.notes):len(t.Root.notes)]
}

// Note notes a change. It is called with mu held: a Hook may call it.
func (t *FS) Note(name string, did dirfs.Did) {
	if t.Root.noted {
		t.Root.notes = append(t.Root.notes, dirfs.Note{Name: name, Did: did})
	}
}

// Overwrite replaces the bytes of an existing file, in place.
func (t *FS) Overwrite(name string, data []byte) error {
	unlock, err := t.enter("write", name)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("write", name)
	if err != nil {
		return err
	}
	n.Data = bytes.Clone(data)
	n.Mtime = time.Now()
	n.Ctime = n.Mtime
	t.Note(name, dirfs.Wrote)
	t.Note(name, dirfs.Closed)
	return nil
}

// Node is a file or a directory.
type Node struct {
	dir          bool
	mode         fs.FileMode
	Ino          uint64
	Mtime, Ctime time.Time
	Data, synced []byte
	Names, kept  map[string]*Node // of a directory: the newest names, and the synced ones
	notes        []dirfs.Note     // of changes in the tree that begins here
	noted        bool             // notes are kept
}

// New returns an empty tree on a machine of its own.
func New() *FS {
	d := &Machine{Free: 1 << 40}
	return &FS{Machine: d, Root: d.dir(0o700)}
}

func (d *Machine) file(mode fs.FileMode) *Node {
	d.inode++
	now := time.Now()
	return &Node{mode: mode, Ino: d.inode, Mtime: now, Ctime: now}
}

func (d *Machine) dir(mode fs.FileMode) *Node {
	n := d.file(mode)
	n.dir, n.Names, n.kept = true, map[string]*Node{}, map[string]*Node{}
	return n
}

// Crash returns the tree as it is on the disk after the machine lost power. names is called for
// each directory. If it returns true, the newest names survive, else the synced ones.
func (t *FS) Crash(names func() bool) *FS {
	t.Machine.mu.Lock()
	defer t.Machine.mu.Unlock()
	d := &Machine{Free: t.Machine.Free, inode: t.Machine.inode}
	var survive func(n *Node) *Node
	survive = func(n *Node) *Node {
		c := *n
		if !n.dir {
			c.Data = bytes.Clone(n.synced)
			if n.synced == nil {
				c.Data = make([]byte, len(n.Data)/2) // other bytes than were written
			}
			c.synced = c.Data
			return &c
		}
		from := n.kept
		if names() {
			from = n.Names
		}
		c.Names, c.kept = map[string]*Node{}, map[string]*Node{}
		for name, below := range from {
			c.Names[name] = survive(below)
			c.kept[name] = c.Names[name]
		}
		return &c
	}
	return &FS{Machine: d, Root: survive(t.Root)}
}

// enter locks the machine for an operation, and returns the function that unlocks it. It fails if the
// hook does.
func (t *FS) enter(op, name string) (func(), error) {
	if t.gate != nil {
		if err := t.gate(); err != nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	t.Machine.mu.Lock()
	if t.Machine.Hook != nil {
		if err := t.Machine.Hook(op, name); err != nil {
			t.Machine.mu.Unlock()
			return nil, &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return t.Machine.mu.Unlock, nil
}

// Find returns a node and its directory.
func (t *FS) Find(op, name string) (dir *Node, base string, n *Node, err error) {
	if !fs.ValidPath(name) {
		return nil, "", nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return nil, ".", t.Root, nil
	}
	dir = t.Root
	parts := strings.Split(name, "/")
	for _, p := range parts[:len(parts)-1] {
		if dir = dir.Names[p]; dir == nil || !dir.dir {
			return nil, "", nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	base = parts[len(parts)-1]
	return dir, base, dir.Names[base], nil
}

// there returns an existing node.
func (t *FS) there(op, name string) (*Node, error) {
	_, _, n, err := t.Find(op, name)
	if err == nil && n == nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, err
}

func (t *FS) Open(name string) (dirfs.File, error) {
	unlock, err := t.enter("open", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	n, err := t.there("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{t: t, n: n, name: name}, nil
}

func (t *FS) Create(name string, perm fs.FileMode) (dirfs.File, error) {
	unlock, err := t.enter("create", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir, base, n, err := t.Find("create", name)
	if err != nil {
		return nil, err
	}
	if n != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n = t.Machine.file(perm & 0o755) // as with an umask
	dir.Names[base] = n
	dir.Mtime, dir.Ctime = n.Mtime, n.Mtime
	t.Note(name, dirfs.Wrote)
	return &memFile{t: t, n: n, name: name, written: true}, nil
}

func (t *FS) Mkdir(name string, perm fs.FileMode) error {
	unlock, err := t.enter("mkdir", name)
	if err != nil {
		return err
	}
	defer unlock()
	var at string
	for _, p := range strings.Split(name, "/") {
		at = path.Join(at, p)
		dir, base, n, err := t.Find("mkdir", at)
		if err != nil {
			return err
		}
		if n == nil {
			n = t.Machine.dir(perm)
			dir.Names[base] = n
			dir.Mtime, dir.Ctime = n.Mtime, n.Mtime
		} else if !n.dir {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
	}
	return nil
}

func (t *FS) Rename(old, new string) error {
	unlock, err := t.enter("rename", new)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("rename", old)
	if err != nil {
		return err
	}
	to, base, was, err := t.Find("rename", new)
	if err != nil {
		return err
	}
	if was != nil && (was.dir != n.dir || len(was.Names) > 0) {
		return &fs.PathError{Op: "rename", Path: new, Err: syscall.ENOTEMPTY}
	}
	from, oldBase, _, _ := t.Find("rename", old)
	delete(from.Names, oldBase)
	to.Names[base] = n
	now := time.Now()
	n.Ctime, from.Mtime, from.Ctime, to.Mtime, to.Ctime = now, now, now, now, now
	t.Note(old, dirfs.Removed)
	t.Note(new, dirfs.Named)
	return nil
}

func (t *FS) Remove(name string) error {
	unlock, err := t.enter("remove", name)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("remove", name)
	if err != nil {
		return err
	}
	if len(n.Names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir, base, _, _ := t.Find("remove", name)
	delete(dir.Names, base)
	t.Note(name, dirfs.Removed)
	dir.Mtime, dir.Ctime = time.Now(), time.Now()
	return nil
}

// Link gives a file a second name.
func (t *FS) Link(old, new string) error {
	unlock, err := t.enter("link", new)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("link", old)
	if err != nil {
		return err
	}
	dir, base, was, err := t.Find("link", new)
	switch {
	case err != nil:
		return err
	case was != nil:
		return &fs.PathError{Op: "link", Path: new, Err: fs.ErrExist}
	case n.dir:
		return &fs.PathError{Op: "link", Path: old, Err: syscall.EPERM}
	}
	dir.Names[base] = n
	dir.Mtime, dir.Ctime = time.Now(), time.Now()
	return nil
}

func (t *FS) Lstat(name string) (fs.FileInfo, error) {
	unlock, err := t.enter("lstat", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	n, err := t.there("lstat", name)
	if err != nil {
		return nil, err
	}
	return n.info(path.Base(name)), nil
}

func (t *FS) ReadDir(name string) (list []fs.DirEntry, err error) {
	unlock, err := t.enter("readdir", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	n, err := t.there("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	for base, below := range n.Names {
		list = append(list, fs.FileInfoToDirEntry(below.info(base)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (t *FS) SyncDir(name string) error {
	unlock, err := t.enter("syncdir", name)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("syncdir", name)
	if err != nil {
		return err
	}
	n.kept = map[string]*Node{}
	for base, below := range n.Names {
		n.kept[base] = below
	}
	return nil
}

func (t *FS) Space() (free, size int64, err error) {
	unlock, err := t.enter("space", ".")
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	return t.Machine.Free, 1 << 40, nil
}

func (t *FS) Close() error { return nil }
