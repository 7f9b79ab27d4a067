// Package growth distinguishes logs from saves. A log is text that only grows, at its end.
package growth

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Files has the growth of each file, by its path.
type Files map[string]growth

// growth is how one file changed so far.
type growth struct {
	state      dirfs.FileState // when the file was last seen closed
	text       bool
	head, tail string
	times      int // how often in a row the file was continued
}

const (
	growthSample = 1024 // bytes of head and tail
	growthTimes  = 3    // how often a log must have been continued
)

// Of reports whether the file at path, in the state now, is text, and whether it is a log.
func (g Files) Of(t dirfs.Reader, path string, now dirfs.FileState) (text, log bool, err error) {
	was := g[path]
	if was.state.SameBytes(now) {
		return was.text, was.times >= growthTimes, nil
	}
	f, err := t.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	is := growth{state: now}
	if is.head, err = sample(f, 0, now.Size); err != nil {
		return false, false, err
	}
	if is.tail, err = sample(f, max(0, now.Size-growthSample), now.Size); err != nil {
		return false, false, err
	}
	is.text = !strings.Contains(is.head, "\x00") &&
		utf8.ValidString(is.head[:max(0, len(is.head)-utf8.UTFMax)])
	if is.text && was.text && is.state.Ino == was.state.Ino && is.state.Size > was.state.Size {
		before, err := sample(f, max(0, was.state.Size-growthSample), was.state.Size)
		if err != nil {
			return false, false, err
		}
		if before == was.tail && strings.HasPrefix(is.head, was.head) {
			is.times = was.times + 1
		}
	}
	g[path] = is
	return is.text, is.times >= growthTimes, nil
}

// Last returns the last result of Of. Use it for a file that is open for writing now.
func (g Files) Last(path string) (text, log bool) {
	was := g[path]
	return was.text, was.times >= growthTimes
}

// sample reads up to growthSample bytes from an offset, and none after end.
func sample(r io.ReaderAt, from, end int64) (string, error) {
	b := make([]byte, min(growthSample, end-from))
	n, err := r.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), err
}
