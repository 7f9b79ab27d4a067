package capture

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// grain is the resolution of the file system's clock.
const grain = 4 * time.Millisecond

// playedDisk simulates a checkpoint directory, the kernel's notices about it, and the one process
// that writes into it. TestPlayedDiskIsLikeARealOne compares it with real directories.
type playedDisk struct {
	now   *time.Time
	inode uint64
	root  *inode
	open  map[string]*opening // by the name under which the process opened it
	maps  map[string]*opening
	notes []dirfs.Note
	read  int  // how many of them the last look has read
	still bool // nothing is watched anew
}

// inode is a file or a directory.
type inode struct {
	number       uint64
	mtime, ctime time.Time
	data         []byte
	names        map[string]*name // of a directory
	watched      string           // of a directory: the name under which it was read last; "" is never
}

// name is a name of an inode. A rename does not make a new one.
type name struct {
	in   *inode
	base string
	of   *inode
}

// opening is a file that the process has open, or mapped.
type opening struct {
	by     *name
	at     int
	users  int  // the descriptor, and the map
	stored bool // through the map
}

func newPlayedDisk(now *time.Time) *playedDisk {
	d := &playedDisk{now: now, open: map[string]*opening{}, maps: map[string]*opening{}}
	d.root = d.make(true)
	return d
}

// clock is the time that a file gets that is written now.
func (d *playedDisk) clock() time.Time { return d.now.Truncate(grain) }

func (d *playedDisk) make(dir bool) *inode {
	d.inode++
	n := &inode{number: d.inode, mtime: d.clock(), ctime: d.clock()}
	if dir {
		n.names = map[string]*name{}
	}
	return n
}

// copy returns a copy of the disk, with the notes that were read, whose process may be killed.
func (d *playedDisk) copy() *playedDisk {
	c := *d
	c.notes, c.still = slices.Clip(d.notes[:d.read]), true
	copies := map[*opening]*opening{}
	for _, of := range []*map[string]*opening{&c.open, &c.maps} {
		*of = maps.Clone(*of)
		for key, o := range *of {
			if copies[o] == nil {
				is := *o
				copies[o] = &is
			}
			(*of)[key] = copies[o]
		}
	}
	return &c
}

// find is the name at a path, nil if it is free, and the directory that has it.
func (d *playedDisk) find(at string) (dir *inode, n *name, err error) {
	dir, n = d.root, &name{of: d.root}
	if at == "." {
		return dir, n, nil
	}
	parts := strings.Split(at, "/")
	for i, base := range parts {
		if n = dir.names[base]; i == len(parts)-1 {
			break
		}
		if n == nil || n.of.names == nil {
			return nil, nil, &fs.PathError{Op: "find", Path: at, Err: fs.ErrNotExist}
		}
		dir = n.of
	}
	return dir, n, nil
}

func (d *playedDisk) note(n *name, did dirfs.Did) {
	if n.in.watched != "" {
		d.notes = append(d.notes, dirfs.Note{Name: path.Join(n.in.watched, n.base), Did: did})
	}
}

// add gives an inode a name, and removes what had it.
func (d *playedDisk) add(dir *inode, base string, n *name) {
	n.in, n.base = dir, base
	dir.names[base] = n
	dir.mtime, dir.ctime = d.clock(), d.clock()
}

func (d *playedDisk) wrote(n *name) {
	n.of.mtime, n.of.ctime = d.clock(), d.clock()
	d.note(n, dirfs.Wrote)
}

// tick lets the clock of the files move on.
func (d *playedDisk) tick() { *d.now = d.now.Truncate(grain).Add(grain) }

// call makes one system call of the process.
func (d *playedDisk) call(c call) error {
	*d.now = d.now.Add(50 * time.Microsecond)
	switch c.Op {
	case "mkdir":
		return d.mkdirAll(path.Clean(c.Name))
	case "create", "open":
		return d.openFile(path.Clean(c.Name), c.Op == "create")
	case "rename", "link", "remove":
		return d.rename(c)
	case "map":
		d.maps[c.Name] = d.open[c.Name]
		d.maps[c.Name].users++
		return nil
	case "store":
		return d.store(d.maps[c.Name], c)
	case "unmap":
		d.release(d.maps, c.Name)
		return nil
	}
	o := d.open[c.Name]
	switch c.Op {
	case "write":
		o.by.of.data = append(o.by.of.data[:o.at:o.at], append(slices.Clone(c.Data),
			o.by.of.data[min(len(o.by.of.data), o.at+len(c.Data)):]...)...)
		o.at += len(c.Data)
		d.wrote(o.by)
	case "truncate":
		was := o.by.of.data
		o.by.of.data = make([]byte, c.At)
		copy(o.by.of.data, was)
		d.wrote(o.by)
	case "sync":
	case "close":
		d.release(d.open, c.Name)
	default:
		return fmt.Errorf("no call %s", c.Op)
	}
	return nil
}

// store writes through a map: the times change with the first write to the page.
func (d *playedDisk) store(o *opening, c call) error {
	copy(o.by.of.data[c.At:], c.Data)
	if !o.stored {
		o.by.of.mtime, o.by.of.ctime = d.clock(), d.clock()
	}
	o.stored = true
	return nil
}

// release drops a descriptor or a map. The kernel gives the notice of a close when both are gone.
func (d *playedDisk) release(from map[string]*opening, key string) {
	o := from[key]
	delete(from, key)
	if o.users--; o.users == 0 {
		d.note(o.by, dirfs.Closed)
	}
}

func (d *playedDisk) mkdirAll(at string) error {
	if at == "." {
		return nil
	}
	if err := d.mkdirAll(path.Dir(at)); err != nil {
		return err
	}
	dir, n, err := d.find(at)
	if err != nil || n != nil {
		return err
	}
	n = &name{of: d.make(true)}
	d.add(dir, path.Base(at), n)
	d.note(n, dirfs.Wrote)
	return nil
}

func (d *playedDisk) openFile(at string, truncate bool) error {
	dir, n, err := d.find(at)
	if err != nil {
		return err
	}
	switch {
	case n == nil:
		n = &name{of: d.make(false)}
		d.add(dir, path.Base(at), n)
		d.note(n, dirfs.Wrote)
	case truncate:
		n.of.data = nil
		d.wrote(n)
	}
	d.open[at] = &opening{by: n, users: 1}
	return nil
}

// rename, link or remove a name.
func (d *playedDisk) rename(c call) error {
	from, n, err := d.find(path.Clean(c.Name))
	if err != nil || n == nil {
		if c.Op == "remove" {
			return nil
		}
		return fmt.Errorf("%s %s: it is not there", c.Op, c.Name)
	}
	n.of.ctime = d.clock()
	if c.Op == "remove" || c.Op == "rename" {
		delete(from.names, n.base)
		from.mtime, from.ctime = d.clock(), d.clock()
	}
	if c.Op != "link" {
		d.note(n, dirfs.Removed)
	}
	if c.Op == "remove" {
		return nil
	}
	to, _, err := d.find(path.Clean(c.To))
	if err != nil {
		return err
	}
	if c.Op == "link" {
		n = &name{of: n.of}
		d.add(to, path.Base(c.To), n)
		d.note(n, dirfs.Made)
		return nil
	}
	d.add(to, path.Base(c.To), n)
	d.note(n, dirfs.Named)
	return nil
}

// kill ends the process: the kernel closes what it has open.
func (d *playedDisk) kill() {
	for _, from := range []map[string]*opening{d.open, d.maps} {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			d.release(from, key)
		}
	}
}

// Notes implements dirfs.Noter.
func (d *playedDisk) Notes(n int) []dirfs.Note { return d.notes[n:len(d.notes):len(d.notes)] }

func (d *playedDisk) there(at string) (*name, error) {
	_, n, err := d.find(at)
	if err == nil && n == nil {
		err = &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
	}
	return n, err
}

// Open, Lstat, ReadDir and Close implement dirfs.Reader.
func (d *playedDisk) Open(at string) (dirfs.File, error) {
	n, err := d.there(at)
	if err != nil {
		return nil, err
	}
	return playedFile{strings.NewReader(string(n.of.data)), n.info(at)}, nil
}

func (d *playedDisk) Lstat(at string) (fs.FileInfo, error) {
	n, err := d.there(at)
	if err != nil {
		return nil, err
	}
	return n.info(at), nil
}

// ReadDir has the directory watched from now on.
func (d *playedDisk) ReadDir(at string) (list []fs.DirEntry, err error) {
	n, err := d.there(at)
	if err != nil {
		return nil, err
	}
	if !d.still {
		n.of.watched = at
	}
	for _, base := range slices.Sorted(maps.Keys(n.of.names)) {
		list = append(list, fs.FileInfoToDirEntry(n.of.names[base].info(base)))
	}
	return list, nil
}

func (d *playedDisk) Close() error { return nil }

// info is an inode as it is now.
func (n *name) info(at string) playedInfo {
	i := *n.of
	return playedInfo{i, path.Base(at), int64(len(i.data))}
}

type playedInfo struct {
	of   inode
	name string
	size int64
}

func (i playedInfo) Name() string       { return i.name }
func (i playedInfo) Size() int64        { return i.size }
func (i playedInfo) ModTime() time.Time { return i.of.mtime }
func (i playedInfo) IsDir() bool        { return i.of.names != nil }
func (i playedInfo) Sys() any {
	return &syscall.Stat_t{Dev: 1, Ino: i.of.number, Ctim: syscall.NsecToTimespec(i.of.ctime.UnixNano())}
}
func (i playedInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// playedFile is a file that the agent reads.
type playedFile struct {
	*strings.Reader
	info playedInfo
}

func (f playedFile) Write([]byte) (int, error)       { return 0, os.ErrPermission }
func (f playedFile) WriteDirect([]byte) (int, error) { return 0, os.ErrPermission }
func (f playedFile) Begin()                          {}
func (f playedFile) Uncache()                        {}
func (f playedFile) Sync() error                     { return nil }
func (f playedFile) Stat() (fs.FileInfo, error)      { return f.info, nil }
func (f playedFile) Chmod(fs.FileMode) error         { return os.ErrPermission }
func (f playedFile) Close() error                    { return nil }

var _ io.ReaderAt = playedFile{}
