package output

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/elasticd/elastic/internal/regular"
)

// lines splits a stream into lines.
type lines struct{ part []byte }

// add calls each with every complete line including its end, and with the start of a line that is
// too long to keep.
func (l *lines) add(b []byte, each func(line []byte)) {
	b = append(l.part, b...)
	l.part = nil
	for len(b) > 0 {
		cut := bytes.IndexAny(b, "\r\n") + 1
		if cut == 0 {
			break
		}
		if b[cut-1] == '\r' && cut < len(b) && b[cut] == '\n' {
			cut++
		}
		each(b[:cut])
		b = b[cut:]
	}
	if len(b) >= longestPart {
		each(b)
		return
	}
	l.part = bytes.Clone(b)
}

// end calls each with the unfinished line at the end of the stream.
func (l *lines) end(each func(line []byte)) {
	if len(l.part) > 0 {
		each(l.part)
		l.part = nil
	}
}

// duplicate is a file with the lines of one stream, of all workers, that contain certain words.
type duplicate struct {
	path  string
	words []string

	mu sync.Mutex // guards f, so that lines stay whole
	f  *os.File   // nil before the first line, and if it cannot be opened
}

// newDuplicate returns nil if there are no words.
func newDuplicate(dir, name string, words []string) *duplicate {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	if len(words) == 0 {
		return nil
	}
	return &duplicate{path: filepath.Join(dir, name), words: words}
}

// take writes a line if it has one of the words. An error is ignored: the worker's log has the
// line.
func (d *duplicate) take(prefix string, line []byte) {
	if !slices.ContainsFunc(d.words, func(w string) bool { return bytes.Contains(line, []byte(w)) }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f == nil {
		f, err := regular.Write(d.path, os.O_WRONLY|os.O_APPEND)
		if err != nil {
			return
		}
		d.f = f
	}
	if !bytes.HasSuffix(line, []byte("\n")) {
		line = append(bytes.TrimRight(line, "\r"), '\n')
	}
	_, _ = d.f.Write(slices.Concat([]byte(prefix), line))
}

func (d *duplicate) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f != nil {
		d.f.Close()
		d.f = nil
	}
}
