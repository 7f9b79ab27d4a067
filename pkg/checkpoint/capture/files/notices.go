package files

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

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Notices receives the kernel's notices (inotify) about a directory tree: when it is time to look,
// and which names were closed after writing, or renamed. Each directory is watched before it is
// read, so no change after the read is missed. If a directory cannot be watched, or other machines
// may write to its file system, notices are incomplete: deaf is set, and the watcher looks at fixed
// intervals.
//
// Only the goroutine that looks uses deaf. notices stay in the kernel's queue until Next asks for
// one, so a save of many writes does not wake a goroutine each time.
//
// A tree in memory keeps a log of its changes. Then there is no queue, and nothing tells when to look.
type Notices struct {
	log   dirfs.Noter
	taken int // how many notes of the log

	queue *Queue
	owned bool          // the queue is closed with the notices
	ask   chan struct{} // holds one value: a request to wait for the next notice
	came  chan struct{} // holds one value: a notice came; closed when no more will come
	deaf  bool          // a directory of this look is not watched fully
	blind bool          // ... or not at all

	mu      sync.Mutex // held through each read, so that changes are noted in the kernel's order
	paths   map[int32]string
	pending []dirfs.Note // that take did not take yet
	lost    bool         // some changes are not in it
}

const (
	happens = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
		unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MOVE_SELF | unix.IN_DELETE | unix.IN_DELETE_SELF
	watchLimit = 1024 // watches of one notices: the kernel limits them per user
)

// local has the file systems to which only this machine's kernel writes.
var local = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true}

// New returns nil if the kernel gives no notices. It uses q until Close. If q is nil or in use, it
// opens a queue of its own.
func New(q *Queue) *Notices {
	owned := !q.take()
	if owned {
		if q = NewQueue(); q == nil {
			return nil
		}
	}
	n := &Notices{queue: q, owned: owned, ask: make(chan struct{}, 1), came: make(chan struct{}, 1),
		paths: map[int32]string{}}
	if !owned {
		n.Take(nil) // what the user before left
	}
	go n.run()
	return n
}

// LogOf returns the changes of a tree that keeps a log of them, from now on; nil: it keeps none.
func LogOf(t dirfs.Reader) *Notices {
	log, ok := t.(dirfs.Noter)
	if !ok {
		return nil
	}
	return &Notices{log: log, taken: len(log.Notes(0))}
}

func (n *Notices) run() {
	defer close(n.came)
	for range n.ask {
		var broke bool
		err := n.queue.conn.Read(func(fd uintptr) bool {
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

// read notes all events that the kernel has now, without waiting.
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
			n.lost = true // the kernel's queue was full
		}
		dir, ok := n.paths[wd]
		if !ok || name == "" {
			continue
		}
		name = path.Join(dir, name)
		switch {
		case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
			n.note(name, dirfs.Removed)
		case mask&unix.IN_MOVED_TO != 0:
			n.note(name, dirfs.Named)
		case mask&unix.IN_CLOSE_WRITE != 0:
			n.note(name, dirfs.Closed)
		case mask&unix.IN_MODIFY != 0, mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR != 0:
			n.note(name, dirfs.Wrote)
		case mask&unix.IN_CREATE != 0:
			n.note(name, dirfs.Made)
		case mask&unix.IN_ATTRIB != 0:
			n.note(name, dirfs.Touched)
		}
	}
}

// note notes one event. Events that are alike and follow each other are one. mu is held.
func (n *Notices) note(name string, did dirfs.Did) {
	x := dirfs.Note{Name: name, Did: did}
	if k := len(n.pending); k == 0 || n.pending[k-1] != x {
		n.pending = append(n.pending, x)
	}
}

// Take adds the changes since the last take. nil: they are forgotten.
func (n *Notices) Take(to *Changes) {
	if n == nil {
		return
	}
	if n.log != nil {
		for _, x := range n.log.Notes(n.taken) {
			to.Note(x.Name, x.Did)
			n.taken++
		}
		return
	}
	_ = n.queue.conn.Control(func(fd uintptr) { n.read(int(fd)) }) // closed: there is nothing more to read
	n.mu.Lock()
	defer n.mu.Unlock()
	if to != nil {
		for _, x := range n.pending {
			to.Note(x.Name, x.Did)
		}
		if n.lost {
			to.Lose()
		}
	}
	n.pending, n.lost = nil, false
}

// Of returns a tree in which each directory is watched from the time that it is read.
func (n *Notices) Of(t dirfs.OS) dirfs.Reader {
	if n == nil {
		return t
	}
	return watched{t, n}
}

// Begin starts a look.
func (n *Notices) Begin() {
	if n != nil {
		n.deaf, n.blind = false, false
	}
}

// Unwatched reports whether a directory that the look read is not watched.
func (n *Notices) Unwatched() bool { return n == nil || n.blind }

// All reports whether all directories that the look read are watched.
func (n *Notices) All() bool { return n != nil && n.log == nil && !n.deaf }

// Next asks for the next notice. The channel receives when it comes.
func (n *Notices) Next() <-chan struct{} {
	select {
	case n.ask <- struct{}{}:
	default:
	}
	return n.came
}

// Close ends the notices. A queue that New did not open stays open, without watches.
func (n *Notices) Close() error {
	if n == nil || n.log != nil {
		return nil
	}
	var err error
	if n.owned {
		err = n.queue.Close()
	} else {
		n.queue.interrupt()
	}
	close(n.ask)
	for range n.came { // until its goroutine ended
	}
	if !n.owned {
		n.queue.giveBack(n.paths)
	}
	return err
}

// watch watches an open directory of that name.
func (n *Notices) watch(dir *os.File, name string) {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &on); err != nil || !local[int64(on.Type)] {
		n.deaf = true // the workers of this machine still cause notices
	}
	n.mu.Lock() // no notice is read before its watch has a name
	defer n.mu.Unlock()
	var wd int
	var err error
	stopped := n.queue.conn.Control(func(queue uintptr) {
		wd, err = unix.InotifyAddWatch(int(queue), fmt.Sprintf("/proc/self/fd/%d", dir.Fd()),
			happens|unix.IN_ONLYDIR)
		if _, known := n.paths[int32(wd)]; err == nil && !known && len(n.paths) == watchLimit {
			_, _ = unix.InotifyRmWatch(int(queue), uint32(wd))
			err = unix.ENOSPC
		}
	})
	if err != nil || stopped != nil {
		n.deaf, n.blind = true, true
		return
	}
	n.paths[int32(wd)] = name
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
