package memfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// memInfo is a copy of a node, as its file info.
type memInfo struct {
	name string
	n    Node
	size int64
}

func (n *Node) info(name string) fs.FileInfo { return memInfo{name, *n, int64(len(n.Data))} }

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.n.Mtime }
func (i memInfo) IsDir() bool        { return i.n.dir }
func (i memInfo) Sys() any {
	return &syscall.Stat_t{Dev: 1, Ino: i.n.Ino, Ctim: syscall.NsecToTimespec(i.n.Ctime.UnixNano())}
}
func (i memInfo) Mode() fs.FileMode {
	if i.n.dir {
		return i.n.mode | fs.ModeDir
	}
	return i.n.mode
}

type memFile struct {
	t    *FS
	n    *Node
	name string
	at   int64

	written bool // Create opened the file
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
	if at >= int64(len(f.n.Data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.Data[at:])
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
	f.n.Data = append(f.n.Data[:f.at], p...) // no one else uses Data: synced is a copy
	f.at += int64(len(p))
	f.n.Mtime = time.Now()
	f.n.Ctime = f.n.Mtime
	f.t.Note(f.name, dirfs.Wrote)
	return len(p), nil
}

func (f *memFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		f.at = offset
	case io.SeekCurrent:
		f.at += offset
	case io.SeekEnd:
		f.at = int64(len(f.n.Data)) + offset
	default:
		return 0, errors.New("whence")
	}
	return f.at, nil
}

func (f *memFile) WriteDirect(p []byte) (int, error) { return f.Write(p) }

func (f *memFile) Uncache() {}

func (f *memFile) Begin() {}

func (f *memFile) Sync() error {
	unlock, err := f.t.enter("sync", f.name)
	if err != nil {
		return err
	}
	defer unlock()
	f.n.synced = append([]byte{}, f.n.Data...)
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
	defer unlock()
	if f.written {
		f.t.Note(f.name, dirfs.Closed)
	}
	return nil
}
