package output

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/regular"
)

// Chunk is the largest number of bytes moved at once.
const Chunk = 256 << 10

// logFile is the log of one worker. If the file cannot be written, its users still get rid of their
// bytes: logFile counts the lost bytes, and writes the number when it can write again.
type logFile struct {
	Path   string
	rotate int64
	keep   int
	notice func(string)

	mu      sync.Mutex // guards everything below
	f       *os.File   // nil: to be opened
	times   logs.LineIndex
	next    int   // number of the next rotated file
	limit   int64 // size from which to rotate
	dropped int64 // bytes lost since the last write that succeeded
	buf     []byte
}

func newLogFile(path string, rotate int64, keep int, notice func(string)) *logFile {
	return &logFile{Path: path, rotate: rotate, keep: keep, notice: notice, next: LastRotated(path) + 1}
}

// LastRotated finds the highest N of path.N.
func LastRotated(path string) int {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return 0
	}
	last := 0
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.Atoi(number); err == nil {
				last = max(last, n)
			}
		}
	}
	return last
}

// begin writes a line of elastic. It starts a new line if the log does not end with one.
func (l *logFile) begin(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size, err := l.ready(); err == nil && size > 0 && !l.endsLine(size) {
		line = "\n" + line
	}
	l.write([]byte(line))
}

// take moves up to a chunk from the pipe to the end of the file. It returns the number of bytes
// taken from the pipe, 0 at its end, and the last of them, at most want. EAGAIN means that the pipe
// is empty.
func (l *logFile) take(pipe, want int) (n int, last []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, last, err = l.append(pipe, want); err == nil || err == syscall.EAGAIN {
		return n, last, err
	}
	// The file cannot be written, or its file system does not support splice.
	if l.buf == nil {
		l.buf = make([]byte, Chunk)
	}
	for {
		if n, err = syscall.Read(pipe, l.buf); err != syscall.EINTR {
			break
		}
	}
	if err != nil || n <= 0 {
		return max(n, 0), nil, err
	}
	l.write(l.buf[:n])
	l.rotateIfFull(l.buf[:n])
	return n, append([]byte(nil), l.buf[max(0, n-want):n]...), nil
}

// append moves bytes with splice, so they are always in the pipe or in the file. It reads the size
// of the file each time, so that others may truncate the file. splice does not support O_APPEND.
func (l *logFile) append(pipe, want int) (int, []byte, error) {
	if l.dropped > 0 { // write must first report the lost bytes
		return 0, nil, syscall.ENOSPC
	}
	size, err := l.ready()
	if err != nil {
		return 0, nil, err
	}
	at := size
	l.times.Mark(l.Path, size, time.Now())
	moved, err := splice(pipe, int(l.f.Fd()), &at)
	if err != nil || moved == 0 {
		return 0, nil, err
	}
	last := make([]byte, min(want, moved))
	if _, err := l.f.ReadAt(last, size+int64(moved-len(last))); err != nil {
		last = nil
	}
	l.rotateIfFull(last)
	return moved, last, nil
}

// splice moves up to a chunk from a pipe to another pipe, or to the offset at of a file. It does
// not wait for bytes.
func splice(from, to int, at *int64) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, at, Chunk, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != syscall.EINTR {
			return int(n), err
		}
	}
}

// ready opens the file if needed, also after it was removed, and returns its size.
func (l *logFile) ready() (int64, error) {
	for range 2 {
		if l.f == nil {
			f, err := regular.Write(l.Path, os.O_RDWR)
			if err != nil {
				return 0, err
			}
			l.f, l.limit = f, l.rotate
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(int(l.f.Fd()), &st); err != nil {
			return 0, err
		}
		if st.Nlink > 0 {
			return st.Size, nil
		}
		l.closeFile()
	}
	return 0, fs.ErrNotExist
}

func (l *logFile) endsLine(size int64) bool {
	var b [1]byte
	_, err := l.f.ReadAt(b[:], size-1)
	return err != nil || b[0] == '\n'
}

// write appends all of p. If that fails it appends nothing, and counts the lost bytes.
func (l *logFile) write(p []byte) {
	size, err := l.ready()
	if err == nil {
		data := p
		if l.dropped > 0 {
			data = append([]byte(nil), l.gap(size)...)
			data = append(data, p...)
		}
		l.times.Mark(l.Path, size, time.Now())
		if _, err = l.f.WriteAt(data, size); err == nil {
			if l.dropped > 0 {
				l.notice(fmt.Sprintf("%s is written again; %d bytes are missing", l.Path, l.dropped))
			}
			l.dropped = 0
			return
		}
		l.f.Truncate(size)
	}
	if l.dropped == 0 {
		l.notice(fmt.Sprintf("cannot write %s: %v; workers go on, their output is dropped", l.Path, err))
	}
	l.dropped += int64(len(p))
}

func (l *logFile) gap(size int64) string {
	line := fmt.Sprintf("---- elastic: %d bytes are missing here, they could not be written, %s ----\n",
		l.dropped, Stamp(time.Now()))
	if size > 0 && !l.endsLine(size) {
		line = "\n" + line
	}
	return line
}

// rotateIfFull rotates a file that is large enough, at the end of a line. A line of more than the limit is
// cut. Rotated files keep their number: 1 is the oldest.
func (l *logFile) rotateIfFull(last []byte) {
	lineEnd := bytes.HasSuffix(last, []byte("\n"))
	size, err := l.ready()
	if err != nil || size < l.limit || (!lineEnd && size < l.limit+l.rotate+4*Chunk) {
		return
	}
	if err := os.Rename(l.Path, l.rotated(l.next)); err != nil {
		l.notice(fmt.Sprintf("cannot rotate %s: %v", l.Path, err))
		l.limit = size + l.rotate
		return
	}
	l.closeFile()
	_ = logs.RenameTimes(l.Path, l.rotated(l.next)) // else its lines have no times
	if l.keep > 0 && l.next > l.keep {
		oldest := l.rotated(l.next - l.keep)
		os.Remove(oldest)
		os.Remove(logs.TimesPath(oldest))
	}
	l.next++
}

func (l *logFile) rotated(n int) string { return rotatedLog(l.Path, n) }

func rotatedLog(path string, n int) string { return path + "." + strconv.Itoa(n) }

func (l *logFile) closeFile() {
	l.f.Close()
	l.f = nil
	l.times.Close()
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.closeFile()
	}
}
