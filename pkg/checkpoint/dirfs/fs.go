// Package dirfs provides a directory as a small file system, and writes files into it that are
// there whole or not at all, also after a crash. No name leads out of the directory.
package dirfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// FS is one directory of a file system. No name leads out of it. OS is a real directory. Package
// memfs has one in memory, which loses unsynced bytes at a crash and fails at chosen operations.
type FS interface {
	Reader
	Create(name string, perm fs.FileMode) (File, error) // for writing; the name must be free
	Mkdir(name string, perm fs.FileMode) error          // nil if the directory exists
	Rename(old, new string) error                       // replaces an existing file
	Remove(name string) error                           // a file, or an empty directory
	SyncDir(name string) error                          // makes the names in it durable
	Space() (free, size int64, err error)               // free: for users other than root
}

// Reader is the part of FS that changes nothing.
type Reader interface {
	Open(name string) (File, error) // fails if name is a symbolic link
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error) // sorted by name
	Close() error
}

// File is an open file. Its methods are those of os.File, unless they say otherwise.
type File interface {
	io.ReadSeeker
	io.ReaderAt
	io.Writer
	io.Closer
	// WriteDirect is Write, past the page cache if possible. The offset and the length must be
	// multiples of directSize.
	WriteDirect(b []byte) (int, error)
	// Uncache drops the file from the page cache, so that the next read is from the disk.
	Uncache()
	// Begin makes the disk begin to write, and does not wait. Sync returns the errors.
	Begin()
	Sync() error
	Stat() (fs.FileInfo, error)
	Chmod(fs.FileMode) error
}

// Make opens the directory dir as a tree. It makes the directory if there is none.
func Make(dir string) (OS, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return OS{}, err
	}
	return Open(dir)
}

// Open opens the directory dir as a tree.
func Open(dir string) (OS, error) {
	r, err := os.OpenRoot(dir)
	return OS{r}, err
}

// OS is a directory of a real file system.
type OS struct{ root *os.Root }

func (t OS) Open(name string) (File, error) {
	// Non-blocking, so that opening a named pipe does not wait.
	return open(t.root, name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

func (t OS) Create(name string, perm fs.FileMode) (File, error) {
	return open(t.root, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func open(r *os.Root, name string, flag int, perm fs.FileMode) (File, error) {
	f, err := r.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

type osFile struct{ *os.File }

func (f osFile) Begin() {
	_ = syscall.SyncFileRange(int(f.Fd()), 0, 0, syncFileRangeWrite)
}

func (f osFile) Uncache() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

const syncFileRangeWrite = 2 // SYNC_FILE_RANGE_WRITE

func (t OS) Mkdir(name string, perm fs.FileMode) error { return t.root.MkdirAll(name, perm) }
func (t OS) Rename(old, new string) error              { return t.root.Rename(old, new) }
func (t OS) Remove(name string) error                  { return t.root.Remove(name) }
func (t OS) Lstat(name string) (fs.FileInfo, error)    { return t.root.Lstat(name) }
func (t OS) Close() error                              { return t.root.Close() }

func (t OS) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(t.root.FS(), name)
}

func (t OS) SyncDir(name string) error {
	d, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// OpenDir opens a directory itself.
func (t OS) OpenDir(name string) (*os.File, error) { return t.root.Open(name) }

func (t OS) Space() (free, size int64, err error) {
	d, err := t.root.Open(".")
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(d.Fd()), &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// FileState identifies a state of a file without reading the file.
type FileState struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64 // ns
}

// FileID identifies a file on one machine.
type FileID struct{ Dev, Ino uint64 }

// ID returns the file's ID.
func (s FileState) ID() FileID { return FileID{s.Dev, s.Ino} }

// StateOf returns the state of the file that fi describes.
func StateOf(fi fs.FileInfo) FileState {
	s := FileState{Size: fi.Size(), Mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino = uint64(st.Dev), st.Ino
		s.Ctime = st.Ctim.Nano()
	}
	return s
}

// SameBytes reports whether the file has the same bytes in both states. It ignores Ctime, which
// also changes when the file is renamed, or another name of it is removed.
func (s FileState) SameBytes(o FileState) bool {
	return s.Dev == o.Dev && s.Ino == o.Ino && s.Size == o.Size && s.Mtime == o.Mtime
}

// Published reports whether the last change of the file or directory was not a write. Usually it
// was a rename. A write sets both times to the same value.
func (s FileState) Published() bool { return s.Ctime > s.Mtime }

// Foreign reports whether fi, in a directory, belongs to a user who is neither ours nor root nor the
// owner of the directory. Where a server of files gives all of them to one user, the directory has
// the same one.
func Foreign(fi, dir fs.FileInfo) bool {
	st, known := fi.Sys().(*syscall.Stat_t)
	of, also := dir.Sys().(*syscall.Stat_t)
	return known && also && int(st.Uid) != os.Geteuid() && st.Uid != 0 && st.Uid != of.Uid
}

// Walk lists the regular files at and below name, except those for which skip returns true. A nil
// skip skips none. Links, devices and pipes are left out.
func Walk(t Reader, name string, skip func(path string) bool) (files []Found, err error) {
	fi, err := t.Lstat(name)
	if err != nil {
		return nil, err
	}
	return Walker{Tree: t, Skip: skip}.From(name, fi, 1)
}

// Walker lists regular files of a tree.
type Walker struct {
	Tree Reader
	Skip func(path string) bool // nil: none
	In   fs.FileInfo            // a directory: what is Foreign there is left out; nil: nothing is
	Deep func(path string)      // gets the files that lie too deep for a manifest; nil: they are an error
}

// From is Walk for a file or directory whose info is known. depth is its depth below the root.
func (w Walker) From(name string, fi fs.FileInfo, depth int) (files []Found, err error) {
	switch {
	case !fi.Mode().IsRegular() && !fi.IsDir(), w.In != nil && Foreign(fi, w.In):
		return nil, nil
	case !fi.IsDir() && depth > manifest.MaxDepth && w.Deep == nil:
		return nil, manifest.ErrTooDeep{Path: name}
	case !fi.IsDir() && depth > manifest.MaxDepth:
		w.Deep(name)
		return nil, nil
	case !fi.IsDir():
		return []Found{{Path: name, Mode: fi.Mode().Perm(), State: StateOf(fi)}}, nil
	}
	list, err := w.Tree.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		below := path.Join(name, e.Name())
		if w.Skip != nil && w.Skip(below) {
			continue
		}
		fi, err := w.Tree.Lstat(below)
		if err != nil {
			return nil, err
		}
		more, err := w.From(below, fi, depth+1)
		if err != nil {
			return nil, err
		}
		if files = append(files, more...); len(files) > manifest.MaxFiles {
			return nil, fmt.Errorf("%w: over %d files in %s", manifest.ErrBadPath, manifest.MaxFiles, name)
		}
	}
	return files, nil
}

// Found is a regular file that a walk found.
type Found struct {
	Path   string
	Mode   fs.FileMode
	State  FileState
	Unsure bool // the bytes may have changed although State did not
}

// SameDisk reports whether two trees are known to be on one file system.
func SameDisk(a, b Reader) bool {
	x, known := device(a)
	y, alsoKnown := device(b)
	return known && alsoKnown && x == y
}

func device(t Reader) (id uint64, known bool) {
	fi, err := t.Lstat(".")
	if err != nil {
		return 0, false
	}
	st, known := fi.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return st.Dev, true
}
