package files

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Queue is a queue of the kernel's notices (inotify). One notices at a time uses it.
//
// If other processes detect by connections that this one was killed, open the queue before the
// connections, so that its descriptor has a lower number. Linux releases the descriptors of a
// killed process from the highest number down, and takes 10 to 20 ms for a queue with watches.
// Connections with lower numbers stay open for that time.
type Queue struct {
	file *os.File
	conn syscall.RawConn
	used atomic.Bool // by a notices
}

// NewQueue returns nil if the kernel gives no notices.
func NewQueue() *Queue {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "notices of a checkpoint directory")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil
	}
	return &Queue{file: file, conn: conn}
}

// Close closes the queue. A notices that uses it receives no more notices.
func (q *Queue) Close() error {
	if q == nil {
		return nil
	}
	return q.file.Close()
}

// take reports whether the caller may use the queue until it calls giveBack. It may not if another
// one uses the queue, or if the queue was closed.
func (q *Queue) take() bool {
	return q != nil && q.used.CompareAndSwap(false, true) && q.file.SetReadDeadline(time.Time{}) == nil
}

// interrupt ends each read that waits, until the next take.
func (q *Queue) interrupt() {
	_ = q.file.SetReadDeadline(time.Unix(1, 0)) // closed: no read waits
}

// giveBack removes the watches. Call it after interrupt.
func (q *Queue) giveBack(watches map[int32]string) {
	_ = q.conn.Control(func(fd uintptr) { // closed: the watches are gone
		for watch := range watches {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(watch)) // a removed directory has none
		}
	})
	q.used.Store(false)
}
