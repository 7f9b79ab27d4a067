package checkpoint

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
)

// disk writes files into a tree so that each is there whole or not at all:
// a temporary one, fsync, rename, fsync of the directory.
//
// A sync that fails is final: the kernel forgets what it could not write, and
// the next sync would say yes to bytes that never arrived. What was to be
// synced is discarded; after the second time the disk takes nothing more.
type disk struct {
	tree
	scratch string // names of temporary files start with it
	temp    atomic.Int64
	failed  atomic.Int32
	buffers sync.Pool // of *[pieceSize]byte
}

const maxFailed = 2

// writeFile puts data at dir/name, or leaves what was there.
func (d *disk) writeFile(dir, name string, data []byte) error {
	temp, err := d.writeTemp(bytes.NewReader(data), 0o600)
	if err != nil {
		return err
	}
	if err := d.move(temp, path.Join(dir, name)); err != nil {
		return err
	}
	return d.syncDir(dir)
}

// writeTemp writes what r yields into a new file, whose bytes are durable then.
func (d *disk) writeTemp(r io.Reader, perm fs.FileMode) (name string, err error) {
	name = d.tempName()
	return name, d.write(name, r, perm)
}

func (d *disk) tempName() string { return d.scratch + strconv.FormatInt(d.temp.Add(1), 10) }

func (d *disk) write(name string, r io.Reader, perm fs.FileMode) error {
	f, err := d.fill(name, r, perm)
	if err != nil {
		return err
	}
	if err = errors.Join(d.synced(f.Sync()), f.Close()); err != nil {
		return noSpace(errors.Join(fmt.Errorf("write %s: %w", name, err), d.discard(name)))
	}
	return nil
}

// fill writes a new file, and leaves it open and unsynced.
func (d *disk) fill(name string, r io.Reader, perm fs.FileMode) (file, error) {
	if d.failed.Load() >= maxFailed {
		return nil, ErrQuarantined
	}
	f, err := d.Create(name, perm)
	if err != nil {
		return nil, noSpace(err)
	}
	if perm != 0o600 {
		err = f.Chmod(perm) // what the umask took
	}
	if err == nil {
		err = d.copy(&pieces{f: f}, r)
	}
	if err != nil {
		return nil, noSpace(errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close(), d.discard(name)))
	}
	return f, nil
}

// copy is io.Copy with a buffer of the right size.
func (d *disk) copy(w io.Writer, r io.Reader) error {
	buf, ok := d.buffers.Get().(*[pieceSize]byte)
	if !ok {
		buf = new([pieceSize]byte)
	}
	defer d.buffers.Put(buf)
	_, err := io.CopyBuffer(w, r, buf[:])
	return err
}

const (
	// pieceSize is how much goes to the kernel at once. More is slower, not
	// faster: for writes of half a megabyte or more ext4 looks for large pages,
	// and finding them takes three times as long as filling small ones.
	pieceSize = 128 << 10
	// earlySize is after how many bytes the disk is told to begin: the sync at
	// the end then waits for little.
	earlySize = ChunkSize
)

// pieces writes a file in pieces, and has the disk begin early.
type pieces struct {
	f   file
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

// move renames temp over name, or discards it.
func (d *disk) move(temp, name string) error {
	if err := d.Rename(temp, name); err != nil {
		return noSpace(errors.Join(err, d.discard(temp)))
	}
	return nil
}

func (d *disk) syncDir(dir string) error {
	if err := d.synced(d.SyncDir(dir)); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// synced counts the failures that are the disk's own.
func (d *disk) synced(err error) error {
	if err = noSpace(err); err != nil && !errors.Is(err, ErrNoSpace) {
		d.failed.Add(1)
	}
	return err
}

func (d *disk) discard(name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sum is the hash of a file of at most a chunk; a longer one has none.
func (d *disk) sum(name string) (h Hash, err error) {
	f, err := d.Open(name)
	if err != nil {
		return h, err
	}
	defer f.Close()
	sum, most := sha256.New(), &io.LimitedReader{R: f, N: ChunkSize + 1}
	if err = d.copy(sum, most); err == nil && most.N > 0 {
		h = Hash(sum.Sum(nil))
	}
	return h, err
}

func (d *disk) readFile(name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
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

// enough checks the room for n more bytes beside what others reserved: ErrNoSpace.
func (d *disk) enough(n, reserved int64) error {
	free, size, err := d.Space()
	if err == nil && free-reserved < n+n/20+min(spared, size/50) {
		err = fmt.Errorf("%w: %d bytes wanted, %d free", ErrNoSpace, n, max(0, free-reserved))
	}
	return err
}

// spared is left free for others, or 2 % of a small disk.
const spared = 64 << 20

// noSpace gives an error of the file system our name for it.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// removeAll removes name and what is below it.
func (d *disk) removeAll(name string) error {
	fi, err := d.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.IsDir() {
		list, err := d.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := d.removeAll(path.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	return d.Remove(name)
}
