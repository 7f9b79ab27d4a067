package dirfs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

var (
	// ErrNoSpace means that the disk has no room. Existing files are not changed.
	ErrNoSpace = errors.New("no space for the checkpoint")
	// ErrQuarantined means that nothing more is written to the disk: it failed to sync twice, or
	// was abandoned.
	ErrQuarantined = errors.New("nothing more is stored on this disk")
	// ErrRemoved is the reason of a disk that was abandoned.
	ErrRemoved = fmt.Errorf("%w: its directory was removed, or replaced by another one", ErrQuarantined)
)

// Disk writes files into a tree. Each file is there whole or not at all: Disk writes a temporary
// file, syncs it, renames it, and syncs the directory.
//
// A sync that fails is not repeated: the kernel drops the bytes that it could not write, and the
// next sync would succeed without them. The file is discarded. After the second failure the disk is
// quarantined.
type Disk struct {
	FS      FS
	scratch string // names of temporary files start with it
	temp    atomic.Int64
	failed  atomic.Int32
	gone    atomic.Bool // see Abandon
	buffers sync.Pool   // of *[directSize]byte
}

// NewDisk returns a Disk that writes into t. The names of its temporary files start with scratch.
func NewDisk(t FS, scratch string) *Disk { return &Disk{FS: t, scratch: scratch} }

// maxFailed is after how many failures the disk is quarantined.
const maxFailed = 2

// Abandon stops all writes to the disk. Its directory was removed or replaced, so the next process
// that opens the path would not find files that are written now.
func (d *Disk) Abandon() { d.gone.Store(true) }

// Return undoes Abandon: the same directory is at its path again.
func (d *Disk) Return() { d.gone.Store(false) }

// Abandoned returns ErrRemoved if the disk was abandoned.
func (d *Disk) Abandoned() error {
	if d.gone.Load() {
		return ErrRemoved
	}
	return nil
}

// WriteFile puts data at dir/name. If it fails, an existing file stays.
func (d *Disk) WriteFile(dir, name string, data []byte) error {
	temp := d.TempName()
	if err := d.Write(temp, 0o600, d.From(bytes.NewReader(data))); err != nil {
		return err
	}
	if err := d.Move(temp, path.Join(dir, name)); err != nil {
		return err
	}
	return d.SyncDir(dir)
}

// TempName returns a new name for a temporary file.
func (d *Disk) TempName() string { return d.scratch + strconv.FormatInt(d.temp.Add(1), 10) }

// Write makes a new file. content writes its bytes. They are durable when Write returns.
func (d *Disk) Write(name string, perm fs.FileMode, content func(io.Writer) error) error {
	f, err := d.fill(name, perm, func(f File) error { return content(&pieces{f: f}) })
	if err != nil {
		return err
	}
	if err = errors.Join(d.CountFailure(f.Sync()), f.Close()); err != nil {
		return WrapNoSpace(errors.Join(fmt.Errorf("write %s: %w", name, err), d.Discard(name)))
	}
	return nil
}

// FillDirect writes a new file, mostly past the page cache, and returns it open and unsynced. It is
// for files that are rarely read: they do not take page cache from the training.
func (d *Disk) FillDirect(name string, perm fs.FileMode, content func(io.Writer) error) (File, error) {
	return d.fill(name, perm, func(f File) error { return content(&directPieces{pieces: pieces{f: f}}) })
}

// fill makes a new file and calls content to write it. After an error it discards the file.
func (d *Disk) fill(name string, perm fs.FileMode, content func(File) error) (File, error) {
	if d.failed.Load() >= maxFailed {
		return nil, fmt.Errorf("%w: it failed twice to sync", ErrQuarantined)
	}
	if err := d.Abandoned(); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, perm)
	if err != nil {
		return nil, WrapNoSpace(err)
	}
	if perm != 0o600 {
		err = f.Chmod(perm) // the umask may have removed bits
	}
	if err == nil {
		err = content(f)
	}
	if err != nil {
		return nil, WrapNoSpace(errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close(),
			d.Discard(name)))
	}
	return f, nil
}

// From returns a content function that copies from r.
func (d *Disk) From(r io.Reader) func(io.Writer) error {
	return func(w io.Writer) error { return d.copy(w, r) }
}

// copy is io.Copy with a buffer of the right size.
func (d *Disk) copy(w io.Writer, r io.Reader) error {
	if whole, ok := r.(io.WriterTo); ok { // needs no buffer
		_, err := whole.WriteTo(w)
		return err
	}
	buf, ok := d.buffers.Get().(*[directSize]byte)
	if !ok {
		buf = new([directSize]byte)
	}
	defer d.buffers.Put(buf)
	_, err := io.CopyBuffer(w, r, buf[:])
	return err
}

const (
	// pieceSize is the size of one write. Larger writes are slower: from half a megabyte on ext4
	// (Linux 6.18) looks for large pages, which takes three times as long as filling small ones. A
	// chunk of 4 MiB was stored at 0.33 GB/s in one write, and at 1.19 GB/s in pieces.
	pieceSize = 128 << 10
	// earlySize is after how many bytes the disk is asked to begin writing, so that the sync at the
	// end does not wait long.
	earlySize = manifest.ChunkSize
	// directSize is the size of one write past the page cache. Smaller writes are slower, because
	// each one waits for the disk.
	directSize = 1 << 20
)

// pieces writes a file in pieces, and makes the disk begin early.
type pieces struct {
	f   File
	new int // bytes since Begin
}

func (w *pieces) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		var k int
		k, err = w.f.Write(b[:min(pieceSize, len(b))])
		n, b, w.new = n+k, b[k:], w.new+k
		if w.new >= earlySize {
			w.f.Begin()
			w.new = 0
		}
	}
	return n, err
}

// directPieces writes a file past the page cache, except for the rest after the last multiple of
// directSize.
type directPieces struct {
	pieces
	small bool // a smaller piece was written, so later offsets are not aligned
}

func (w *directPieces) Write(b []byte) (n int, err error) {
	for len(b) >= directSize && !w.small && err == nil {
		var k int
		k, err = w.f.WriteDirect(b[:len(b)-len(b)%directSize])
		n, b = n+k, b[k:]
	}
	if len(b) == 0 || err != nil {
		return n, err
	}
	w.small = true
	k, err := w.pieces.Write(b)
	return n + k, err
}

// Move renames temp over name, or discards it.
func (d *Disk) Move(temp, name string) error {
	if err := d.FS.Rename(temp, name); err != nil {
		return WrapNoSpace(errors.Join(err, d.Discard(temp)))
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (d *Disk) SyncDir(dir string) error {
	if err := d.CountFailure(d.FS.SyncDir(dir)); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// CountFailure counts an error as a failure of the disk, and returns it. A full disk, missing
// permission and missing file descriptors are not counted, because no written bytes are lost.
func (d *Disk) CountFailure(err error) error {
	if err = WrapNoSpace(err); err == nil {
		return nil
	}
	for _, sound := range []error{ErrNoSpace, fs.ErrPermission, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, sound) {
			return err
		}
	}
	d.failed.Add(1)
	return err
}

// Discard removes a file, if there is one.
func (d *Disk) Discard(name string) error {
	if err := d.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sum returns the hash of a file as it is on the disk, past the page cache. It returns the zero
// Hash if the file is longer than a chunk.
func (d *Disk) Sum(name string) (h manifest.Hash, err error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	f.Uncache()
	defer f.Uncache()
	sum, most := sha256.New(), &io.LimitedReader{R: f, N: manifest.ChunkSize + 1}
	if size := info.Size(); size < pieceSize { // one byte more, to see the end of the file
		_, err = io.CopyBuffer(sum, most, make([]byte, size+1))
	} else {
		err = d.copy(sum, most)
	}
	if err == nil && most.N > 0 {
		h = manifest.Hash(sum.Sum(nil))
	}
	return h, err
}

// ReadFile reads a file of at most limit bytes.
func (d *Disk) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return b, err
}

// CheckSpace returns ErrNoSpace if there is no room for n bytes in addition to those reserved.
func (d *Disk) CheckSpace(n, reserved int64) error {
	free, size, err := d.FS.Space()
	needed := n + n/20 + min(SparedSpace, size/50)
	if err == nil && free-reserved < needed {
		err = fmt.Errorf("%w: it needs %d bytes, and %d must stay free for other programs; %d are free",
			ErrNoSpace, n, needed-n, max(0, free-reserved))
	}
	return err
}

// SparedSpace is how many bytes stay free for other programs. On a small disk it is 2 % instead.
const SparedSpace = 64 << 20

// WrapNoSpace wraps the errors of a full disk and a full quota as ErrNoSpace.
func WrapNoSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// RemoveAll removes name and everything below it.
func (d *Disk) RemoveAll(name string) error {
	fi, err := d.FS.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.IsDir() {
		list, err := d.FS.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := d.RemoveAll(path.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	return d.FS.Remove(name)
}

// NewScratchDisk returns a Disk for a checkpoint directory. Its temporary files are never captured.
func NewScratchDisk(t FS) *Disk { return NewDisk(t, manifest.ReservedPrefix) }
