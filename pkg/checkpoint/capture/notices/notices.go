// Package notices says which names in a directory tree were written or renamed.
package notices

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Notices are what the kernel says of a directory: that it is time to look, and which names were
// closed after writing, or given by a rename. Each directory is watched before it is read, so what
// comes after the reading is noticed. A directory that cannot be watched, or on whose file system
// other machines write unseen, makes them deaf: then only the clock says when to look.
//
// The goroutine that looks owns deaf. Notices that it does not ask for stay with the kernel: a save
// of many writes wakes no goroutine.
type Notices struct {
	queue *os.File
	conn  syscall.RawConn
	ask   chan struct{} // holds one value: to wait for the next
	came  chan struct{} // holds one value: a notice came; closed when no more will come
	deaf  bool          // about a directory of this look

	mu      sync.Mutex // held through each read: what was read is noted in the order of the kernel
	paths   map[int32]string
	changes Changes
}

const (
	happens = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
		unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MOVE_SELF | unix.IN_DELETE | unix.IN_DELETE_SELF
	watchLimit = 1024 // directories in the life of a Capture: the user's other programs watch, too
)

// local are the file systems that only this machine's kernel writes to.
var local = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true}

// New returns nil if the kernel has none to give.
func New() *Notices {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	queue := os.NewFile(uintptr(fd), "notices of a checkpoint directory")
	conn, err := queue.SyscallConn()
	if err != nil {
		queue.Close()
		return nil
	}
	n := &Notices{queue: queue, conn: conn, ask: make(chan struct{}, 1), came: make(chan struct{}, 1),
		paths: map[int32]string{}, changes: noChanges()}
	go n.run()
	return n
}

func (n *Notices) run() {
	defer close(n.came)
	for range n.ask {
		var broke bool
		err := n.conn.Read(func(fd uintptr) bool {
			var any bool
			any, broke = n.read(int(fd))
			return any || broke
		})
		if err != nil || broke {
			return
		}
		select {
		case n.came <- struct{}{}:
		default:
		}
	}
}

// read notes all that the kernel has to tell, without waiting.
func (n *Notices) read(fd int) (any, broke bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := make([]byte, 16<<10)
	for ; ; any = true {
		k, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return any, false
		case err != nil || k <= 0:
			return any, true
		}
		n.parse(b[:k])
	}
}

// parse notes events. mu is held.
func (n *Notices) parse(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask, size := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
		b = b[unix.SizeofInotifyEvent+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			n.changes.Lost = true // the kernel had more than it keeps
		}
		dir, ok := n.paths[wd]
		if !ok || name == "" {
			continue
		}
		name = path.Join(dir, name)
		switch {
		case mask&unix.IN_MOVED_TO != 0:
			n.changes.note(name, dirfs.Named)
		case mask&unix.IN_CLOSE_WRITE != 0:
			n.changes.note(name, dirfs.Closed)
		case mask&(unix.IN_MODIFY|unix.IN_CREATE) != 0:
			n.changes.note(name, dirfs.Wrote)
		}
	}
}

// Take returns the changes since the last Take; nil if the kernel gives no notices.
func (n *Notices) Take() *Changes {
	if n == nil {
		return nil
	}
	_ = n.conn.Control(func(fd uintptr) { n.read(int(fd)) }) // closed: there is nothing more to read
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes.take()
}

// Of is the tree of a directory. There will be notices of everything that is read in it.
func (n *Notices) Of(t dirfs.OS) dirfs.Reader {
	if n == nil {
		return t
	}
	return watched{t, n}
}

// Begin forgets what the look before met.
func (n *Notices) Begin() {
	if n != nil {
		n.deaf = false
	}
}

// All reports whether everything that the look read is watched.
func (n *Notices) All() bool { return n != nil && !n.deaf }

// Next asks for the next notice.
func (n *Notices) Next() <-chan struct{} {
	select {
	case n.ask <- struct{}{}:
	default:
	}
	return n.came
}

func (n *Notices) Close() error {
	if n == nil {
		return nil
	}
	err := n.queue.Close()
	close(n.ask)
	for range n.came { // until its goroutine ended
	}
	return err
}

// watch has notices of a directory that is open, and has that name.
func (n *Notices) watch(dir *os.File, name string) {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &on); err != nil || !local[int64(on.Type)] {
		n.deaf = true // the workers of this machine still cause notices
	}
	var wd int
	var err error
	stopped := n.conn.Control(func(queue uintptr) {
		wd, err = unix.InotifyAddWatch(int(queue), fmt.Sprintf("/proc/self/fd/%d", dir.Fd()),
			happens|unix.IN_ONLYDIR)
		if err == nil && wd > watchLimit { // they are numbered as they are made
			_, err = unix.InotifyRmWatch(int(queue), uint32(wd))
			n.deaf = true
		}
	})
	if err == nil && stopped == nil {
		n.mu.Lock()
		n.paths[int32(wd)] = name
		n.mu.Unlock()
	}
	n.deaf = n.deaf || err != nil || stopped != nil
}

// watched is a directory tree in which each directory is watched before it is read.
type watched struct {
	tree    dirfs.OS
	notices *Notices
}

func (t watched) Open(name string) (dirfs.File, error)   { return t.tree.Open(name) }
func (t watched) Lstat(name string) (fs.FileInfo, error) { return t.tree.Lstat(name) }
func (t watched) Close() error                           { return t.tree.Close() }

func (t watched) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := t.tree.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	t.notices.watch(d, name)
	list, err := d.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}
