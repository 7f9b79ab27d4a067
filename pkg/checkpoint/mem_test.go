package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memTree is a tree in memory that knows what a crash leaves: the bytes of a
// file up to its last sync, the names of a directory as of its last SyncDir or,
// as it may please a kernel, as they were.
type memTree struct {
	*memDisk
	root *memNode
}

// memDisk is the state that all trees of one machine share.
type memDisk struct {
	mu    sync.Mutex
	hook  func(op, name string) error // asked before each operation
	space int64                       // free bytes; they do not shrink
	inode uint64
}

// set changes the state while others use it, and returns the hook that was there.
func (d *memDisk) set(hook func(op, name string) error, space int64) func(op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.hook
	d.hook, d.space = hook, space
	return was
}

type memNode struct {
	dir          bool
	mode         fs.FileMode
	ino          uint64
	mtime, ctime time.Time
	data, synced []byte
	names, kept  map[string]*memNode // of a directory: now, and as synced
}

func newMem() *memTree {
	d := &memDisk{space: 1 << 40}
	return &memTree{d, d.node(true, 0o700)}
}

func (d *memDisk) node(dir bool, mode fs.FileMode) *memNode {
	d.inode++
	now := time.Now()
	n := &memNode{dir: dir, mode: mode, ino: d.inode, mtime: now, ctime: now}
	if dir {
		n.names, n.kept = map[string]*memNode{}, map[string]*memNode{}
	}
	return n
}

// crash is what the disk holds after the machine lost power. names says, for
// each directory, whether its names are those of now or those that were synced.
func (t *memTree) crash(names func() bool) *memTree {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &memDisk{space: t.space, inode: t.inode}
	var survive func(n *memNode) *memNode
	survive = func(n *memNode) *memNode {
		c := *n
		if !n.dir {
			c.data = bytes.Clone(n.synced)
			if n.synced == nil {
				c.data = make([]byte, len(n.data)/2) // something, but not what was written
			}
			c.synced = c.data
			return &c
		}
		from := n.kept
		if names() {
			from = n.names
		}
		c.names, c.kept = map[string]*memNode{}, map[string]*memNode{}
		for name, below := range from {
			c.names[name] = survive(below)
			c.kept[name] = c.names[name]
		}
		return &c
	}
	return &memTree{d, survive(t.root)}
}

func (t *memTree) enter(op, name string) (func(), error) {
	t.mu.Lock()
	if t.hook != nil {
		if err := t.hook(op, name); err != nil {
			t.mu.Unlock()
			return nil, &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return t.mu.Unlock, nil
}

// find returns a node and the directory that it is in.
func (t *memTree) find(op, name string) (dir *memNode, base string, n *memNode, err error) {
	if !fs.ValidPath(name) {
		return nil, "", nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return nil, ".", t.root, nil
	}
	dir = t.root
	parts := strings.Split(name, "/")
	for _, p := range parts[:len(parts)-1] {
		if dir = dir.names[p]; dir == nil || !dir.dir {
			return nil, "", nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	base = parts[len(parts)-1]
	return dir, base, dir.names[base], nil
}

func (t *memTree) there(op, name string) (*memNode, error) {
	_, _, n, err := t.find(op, name)
	if err == nil && n == nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, err
}

func (t *memTree) Open(name string) (file, error) {
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

func (t *memTree) Create(name string, perm fs.FileMode) (file, error) {
	unlock, err := t.enter("create", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir, base, n, err := t.find("create", name)
	if err != nil {
		return nil, err
	}
	if n != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n = t.node(false, perm&0o755) // an umask
	dir.names[base] = n
	dir.mtime, dir.ctime = n.mtime, n.mtime
	return &memFile{t: t, n: n, name: name}, nil
}

func (t *memTree) Mkdir(name string, perm fs.FileMode) error {
	unlock, err := t.enter("mkdir", name)
	if err != nil {
		return err
	}
	defer unlock()
	var at string
	for _, p := range strings.Split(name, "/") {
		at = path.Join(at, p)
		dir, base, n, err := t.find("mkdir", at)
		if err != nil {
			return err
		}
		if n == nil {
			n = t.node(true, perm)
			dir.names[base] = n
			dir.mtime, dir.ctime = n.mtime, n.mtime
		} else if !n.dir {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
	}
	return nil
}

func (t *memTree) Rename(old, new string) error {
	unlock, err := t.enter("rename", new)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("rename", old)
	if err != nil {
		return err
	}
	to, base, was, err := t.find("rename", new)
	if err != nil {
		return err
	}
	if was != nil && (was.dir != n.dir || len(was.names) > 0) {
		return &fs.PathError{Op: "rename", Path: new, Err: syscall.ENOTEMPTY}
	}
	from, oldBase, _, _ := t.find("rename", old)
	delete(from.names, oldBase)
	to.names[base] = n
	now := time.Now()
	n.ctime, from.mtime, from.ctime, to.mtime, to.ctime = now, now, now, now, now
	return nil
}

func (t *memTree) Remove(name string) error {
	unlock, err := t.enter("remove", name)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("remove", name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir, base, _, _ := t.find("remove", name)
	delete(dir.names, base)
	dir.mtime, dir.ctime = time.Now(), time.Now()
	return nil
}

func (t *memTree) Lstat(name string) (fs.FileInfo, error) {
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

func (t *memTree) ReadDir(name string) (list []fs.DirEntry, err error) {
	unlock, err := t.enter("readdir", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	n, err := t.there("readdir", name)
	if err != nil {
		return nil, err
	}
	for base, below := range n.names {
		list = append(list, fs.FileInfoToDirEntry(below.info(base)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (t *memTree) SyncDir(name string) error {
	unlock, err := t.enter("syncdir", name)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := t.there("syncdir", name)
	if err != nil {
		return err
	}
	n.kept = map[string]*memNode{}
	for base, below := range n.names {
		n.kept[base] = below
	}
	return nil
}

func (t *memTree) Space() (free, size int64, err error) {
	unlock, err := t.enter("space", ".")
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	return t.space, 1 << 40, nil
}

func (t *memTree) Close() error { return nil }

// memInfo is a node as it was.
type memInfo struct {
	name string
	n    memNode
	size int64
}

func (n *memNode) info(name string) fs.FileInfo { return memInfo{name, *n, int64(len(n.data))} }

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.n.mtime }
func (i memInfo) IsDir() bool        { return i.n.dir }
func (i memInfo) Sys() any {
	return &syscall.Stat_t{Dev: 1, Ino: i.n.ino, Ctim: syscall.NsecToTimespec(i.n.ctime.UnixNano())}
}
func (i memInfo) Mode() fs.FileMode {
	if i.n.dir {
		return i.n.mode | fs.ModeDir
	}
	return i.n.mode
}

type memFile struct {
	t    *memTree
	n    *memNode
	name string
	at   int64
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	unlock, err := f.t.enter("read", f.name)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if at < 0 {
		return 0, &fs.PathError{Op: "readat", Path: f.name, Err: errors.New("negative offset")}
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	unlock, err := f.t.enter("write", f.name)
	if err != nil {
		return 0, err
	}
	defer unlock()
	f.n.data = append(f.n.data[:f.at], p...) // nothing else has it: synced is a copy
	f.at += int64(len(p))
	f.n.mtime = time.Now()
	f.n.ctime = f.n.mtime
	return len(p), nil
}

func (f *memFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		f.at = offset
	case io.SeekCurrent:
		f.at += offset
	case io.SeekEnd:
		f.at = int64(len(f.n.data)) + offset
	default:
		return 0, errors.New("whence")
	}
	return f.at, nil
}

func (f *memFile) Begin() {}

func (f *memFile) Sync() error {
	unlock, err := f.t.enter("sync", f.name)
	if err != nil {
		return err
	}
	defer unlock()
	f.n.synced = append([]byte{}, f.n.data...)
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	unlock, err := f.t.enter("stat", f.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.n.info(path.Base(f.name)), nil
}

func (f *memFile) Chmod(mode fs.FileMode) error {
	unlock, err := f.t.enter("chmod", f.name)
	if err != nil {
		return err
	}
	defer unlock()
	f.n.mode = mode
	return nil
}

func (f *memFile) Close() error {
	unlock, err := f.t.enter("close", f.name)
	if err != nil {
		return err
	}
	unlock()
	return nil
}
