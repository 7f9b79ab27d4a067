package capture

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// notices is the word of the kernel that something happened in a directory: a hint to look, and never more. Each
// directory is watched before it is read, so what comes after the reading is told. One that cannot be watched, or
// on whose file system others write unseen, makes them deaf: then there is only the clock.
//
// The goroutine of the Capture owns deaf. What is not asked for stays with the kernel: a save of many writes wakes nobody.
type notices struct {
	queue *os.File
	conn  syscall.RawConn
	ask   chan struct{} // holds one value: to wait for the next
	told  chan struct{} // holds one value: there was one; closed when no more will be told
	deaf  bool          // about a directory of this look
}

const (
	happens = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_MOVE_SELF | unix.IN_DELETE | unix.IN_DELETE_SELF
	watchLimit = 1024 // directories in the life of a Capture: the user's other programs watch, too
)

// tells are the file systems that only this machine's kernel writes to.
var tells = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true}

// newNotices returns nil if the kernel has none to give.
func newNotices() *notices {
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
	n := &notices{queue: queue, conn: conn, ask: make(chan struct{}, 1), told: make(chan struct{}, 1)}
	go n.run()
	return n
}

func (n *notices) run() {
	defer close(n.told)
	b := make([]byte, 4<<10)
	for range n.ask {
		var broke bool
		err := n.conn.Read(func(fd uintptr) bool {
			for any := false; ; any = true {
				switch k, err := unix.Read(int(fd), b); {
				case err == unix.EINTR:
				case err == unix.EAGAIN:
					return any
				case err != nil || k <= 0:
					broke = true
					return true
				}
			}
		})
		if err != nil || broke {
			return
		}
		select {
		case n.told <- struct{}{}:
		default:
		}
	}
}

// of is the tree of a directory, and of what is read below it there will be notices.
func (n *notices) of(t dirfs.OS) dirfs.Reader {
	if n == nil {
		return t
	}
	return watched{t, n}
}

// begin forgets what the look before met.
func (n *notices) begin() {
	if n != nil {
		n.deaf = false
	}
}

// all reports whether everything that the look read is watched.
func (n *notices) all() bool { return n != nil && !n.deaf }

// next asks for the next notice.
func (n *notices) next() <-chan struct{} {
	select {
	case n.ask <- struct{}{}:
	default:
	}
	return n.told
}

func (n *notices) close() error {
	if n == nil {
		return nil
	}
	err := n.queue.Close()
	close(n.ask)
	for range n.told { // until its goroutine ended
	}
	return err
}

// watch has notices of a directory that is open.
func (n *notices) watch(dir *os.File) {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &on); err != nil || !tells[int64(on.Type)] {
		n.deaf = true
		return
	}
	var wd int
	var err error
	stopped := n.conn.Control(func(queue uintptr) {
		wd, err = unix.InotifyAddWatch(int(queue), fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), happens|unix.IN_ONLYDIR)
		if err == nil && wd > watchLimit { // they are numbered as they are made
			_, err = unix.InotifyRmWatch(int(queue), uint32(wd))
			n.deaf = true
		}
	})
	n.deaf = n.deaf || err != nil || stopped != nil
}

// watched is a directory tree in which each directory is watched before it is read.
type watched struct {
	tree    dirfs.OS
	notices *notices
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
	t.notices.watch(d)
	list, err := d.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}
