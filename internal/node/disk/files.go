package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Files is the state directory of a host. Names are relative to it. The real one is a directory; the
// simulation has one in memory, which loses what was not synced, is full, or fails.
type Files interface {
	ReadFile(name string) ([]byte, error)
	// WriteFile makes or empties a file, and writes it. The bytes are durable when it returns, the name
	// is not.
	WriteFile(name string, b []byte) error
	Mkdir(name string) error // with those above it; nil if the directory exists
	Rename(old, new string) error
	Link(old, new string) error // gives a file a second name, which must be free
	Remove(name string) error   // a file, or an empty directory
	RemoveAll(name string) error
	SyncDir(name string) error // makes the names in it durable
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// Lock takes the lock of a file, which it makes if there is none. The lock ends with the process.
	// It fails with message.ErrLocked while another process has it.
	Lock(name string) (unlock func(), err error)
	// Tree opens a directory as a tree of its own. It fails with fs.ErrNotExist if there is none.
	Tree(name string) (dirfs.FS, error)
}

// hostFiles is Files in a directory of this host.
type hostFiles string

func (h hostFiles) path(name string) string { return filepath.Join(string(h), name) }

func (h hostFiles) ReadFile(name string) ([]byte, error) { return os.ReadFile(h.path(name)) }

func (h hostFiles) WriteFile(name string, b []byte) error {
	f, err := os.OpenFile(h.path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

func (h hostFiles) Mkdir(name string) error      { return os.MkdirAll(h.path(name), 0o700) }
func (h hostFiles) Rename(old, new string) error { return os.Rename(h.path(old), h.path(new)) }
func (h hostFiles) Link(old, new string) error   { return os.Link(h.path(old), h.path(new)) }
func (h hostFiles) Remove(name string) error     { return os.Remove(h.path(name)) }
func (h hostFiles) RemoveAll(name string) error  { return os.RemoveAll(h.path(name)) }

func (h hostFiles) SyncDir(name string) error {
	d, err := os.Open(h.path(name))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (h hostFiles) Stat(name string) (fs.FileInfo, error) { return os.Stat(h.path(name)) }

func (h hostFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(h.path(name)) }

func (h hostFiles) Tree(name string) (dirfs.FS, error) { return dirfs.Open(h.path(name)) }

// Lock opens a new file if the file was removed after it was opened, because its lock protects nothing.
func (h hostFiles) Lock(name string) (func(), error) {
	path := h.path(name)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = message.ErrLocked
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
