package logs

// This file knows when the lines of a log were written. Logs have no times in them, as torchrun's:
// beside workerlog.0 lies an index, .workerlog.0.times, in which a mark says that the bytes from an
// offset on were written at a time or later. Its writer is the process that writes the log.

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/regular"
)

const (
	// most bounds the marks of one log.
	most = 64 << 10
	// closest is the least time between two marks. Marks of a log that grows for longer than half of
	// most seconds are further apart.
	closest = time.Second
	// size is that of a mark in the file: offset and milliseconds since 1970, big-endian.
	size = 16
)

// LineMark says that bytes from Offset on were written at Time or later.
type LineMark struct {
	Offset int64
	Time   time.Time
}

// TimesPath is the index of a log.
func TimesPath(log string) string {
	return filepath.Join(filepath.Dir(log), "."+filepath.Base(log)+".times")
}

// RenameTimes moves the index of a log that was renamed. There may be none.
func RenameTimes(log, to string) error {
	if err := os.Rename(TimesPath(log), TimesPath(to)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LineIndex writes the marks of one log. The zero value is ready. Its user closes it when another file
// takes the place of the log.
type LineIndex struct {
	f     *os.File // nil: not open
	n     int      // marks in f
	first time.Time
	last  LineMark
}

// Mark notes that the bytes from offset on will be written now. It is called before they are, so that
// the mark of a line that was read is there. A mark that cannot be written is left out.
func (x *LineIndex) Mark(log string, offset int64, now time.Time) {
	if since := now.Sub(x.last.Time); offset >= x.last.Offset && since >= 0 && since < spacing(x.first, now) {
		return
	}
	if x.f == nil {
		x.open(log)
	}
	if x.n >= most {
		x.thin(log, now)
	}
	if x.f != nil && offset < x.last.Offset { // the log was emptied
		x.cut(0)
	}
	x.last = LineMark{offset, now} // without a file, too: the next try is a second later
	if x.f == nil {
		return
	}
	if _, err := x.f.WriteAt(encode(nil, x.last), int64(x.n)*size); err != nil {
		x.drop()
		return
	}
	if x.n++; x.n == 1 {
		x.first = now
	}
}

// Close closes the file.
func (x *LineIndex) Close() {
	x.drop()
	*x = LineIndex{}
}

func (x *LineIndex) drop() {
	if x.f != nil {
		x.f.Close()
	}
	x.f, x.n, x.first = nil, 0, time.Time{}
}

// open opens the index and reads its first and last mark.
func (x *LineIndex) open(log string) {
	f, err := regular.Write(TimesPath(log), os.O_RDWR)
	if err != nil {
		return
	}
	x.f = f
	marks := read(f)
	if len(marks) > 0 {
		x.first, x.last = marks[0].Time, marks[len(marks)-1]
	}
	x.cut(len(marks))
}

// cut keeps the first n marks.
func (x *LineIndex) cut(n int) {
	if x.n = n; n == 0 {
		x.first = time.Time{}
	}
	if x.f.Truncate(int64(n)*size) != nil {
		x.drop()
	}
}

// thin writes the index again with at most half of the marks.
func (x *LineIndex) thin(log string, now time.Time) {
	apart := spacing(x.first, now)
	var kept []byte
	var before time.Time
	for _, m := range read(x.f) {
		since := m.Time.Sub(before)
		if len(kept) < most/2*size && (since < 0 || since >= apart) {
			kept, before = encode(kept, m), m.Time
		}
	}
	x.drop()
	if regular.Replace(TimesPath(log), kept) != nil {
		_ = os.Remove(TimesPath(log)) // no times are better than an index that grows
	}
	x.open(log)
}

// spacing is the time between two marks of a log that was begun at first.
func spacing(first, now time.Time) time.Duration {
	if first.IsZero() {
		return closest
	}
	return max(closest, now.Sub(first)/(most/2))
}

func encode(b []byte, m LineMark) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(m.Offset))
	return binary.BigEndian.AppendUint64(b, uint64(m.Time.UnixMilli()))
}

// read returns the marks of a file up to the first that cannot be one.
func read(f *os.File) (marks []LineMark) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, (most+1)*size))
	if err != nil {
		return nil
	}
	for ; len(b) >= size; b = b[size:] {
		m := LineMark{int64(binary.BigEndian.Uint64(b)), time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))}
		if m.Offset < 0 || len(marks) > 0 && m.Offset < marks[len(marks)-1].Offset {
			break
		}
		marks = append(marks, m)
	}
	return marks
}

// LineTimes answers when the lines of an open log were written. Its log may grow.
type LineTimes struct {
	log   *os.File
	f     *os.File // the index; nil: not found yet
	marks []LineMark
	known int64 // the marks of all bytes before it are in marks
}

// TimesOf returns the times of an open log. The caller closes them.
func TimesOf(log *os.File) *LineTimes { return &LineTimes{log: log} }

// Close closes the index.
func (t *LineTimes) Close() {
	if t.f != nil {
		t.f.Close()
	}
	t.f = nil
}

// At returns the time of the line that begins at offset and has been read; zero: unknown.
func (t *LineTimes) At(offset int64) time.Time {
	if offset >= t.known {
		t.load(offset)
	}
	at := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].Offset > offset })
	if at == 0 {
		return time.Time{}
	}
	return t.marks[at-1].Time
}

// load reads the index. Marks are written before the bytes, so the size of the log is asked first.
func (t *LineTimes) load(offset int64) {
	t.known = offset + 1
	if info, err := t.log.Stat(); err == nil {
		t.known = max(t.known, info.Size())
	}
	if t.f == nil || replaced(t.f) {
		t.find()
	}
	if t.f != nil {
		t.marks = read(t.f)
	}
}

// find opens the index, if the log still has its name: another log that took the name has another
// index. Of a rotated log the index is renamed last.
func (t *LineTimes) find() {
	f, err := regular.Open(TimesPath(t.log.Name()))
	if err != nil {
		return
	}
	here, err := t.log.Stat()
	there, gone := os.Stat(t.log.Name())
	if err != nil || gone != nil || !os.SameFile(here, there) {
		f.Close()
		return
	}
	t.Close()
	t.f = f
}

// replaced reports whether the file has no name any more.
func replaced(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0
}
