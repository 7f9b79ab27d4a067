package output

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// lines puts the pieces of a stream together into lines.
type lines struct{ part []byte }

// add passes on every line that is complete, with its end, and a part that becomes too long to hold
// back.
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

// end passes on the part that is left at the end of the stream.
func (l *lines) end(each func(line []byte)) {
	if len(l.part) > 0 {
		each(l.part)
		l.part = nil
	}
}

// duplicate is a file that gets the lines with certain words, of one stream of all workers.
type duplicate struct {
	path  string
	words []string

	mu sync.Mutex // guards f, and keeps lines whole
	f  *os.File   // nil until the first line, or where it cannot be written
}

// newDuplicate is nil where nothing is to be copied.
func newDuplicate(dir, name string, words []string) *duplicate {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	if len(words) == 0 {
		return nil
	}
	return &duplicate{path: filepath.Join(dir, name), words: words}
}

// take copies a line that is wanted. What cannot be written is lost: the worker's log has it.
func (d *duplicate) take(prefix string, line []byte) {
	if !slices.ContainsFunc(d.words, func(w string) bool { return bytes.Contains(line, []byte(w)) }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f == nil {
		f, err := openAppend(d.path)
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
