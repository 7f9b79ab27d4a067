package capture

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/judge"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// growing tells logs from saves: text that is only ever continued.
type growing map[string]growth

// growth is what is known of how one file changes.
type growth struct {
	state      dirfs.FileState // when it was last seen closed
	text       bool
	head, tail string // of it
	times      int    // it was continued, one after the other
}

const (
	growthSample = 1024 // bytes of head and tail
	growthTimes  = 3    // before it is a log
)

// of reports whether a file has text in it, and whether that was seen to grow as a log does: behind
// what was there.
func (g growing) of(t dirfs.Reader, e *entry, status judge.Status) (text, log bool, err error) {
	was := g[e.name]
	if status != judge.Done || was.state.SameBytes(e.top) {
		return was.text, was.times >= growthTimes, nil
	}
	f, err := t.Open(e.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	is := growth{state: e.top}
	if is.head, err = sample(f, 0, e.top.Size); err != nil {
		return false, false, err
	}
	if is.tail, err = sample(f, max(0, e.top.Size-growthSample), e.top.Size); err != nil {
		return false, false, err
	}
	is.text = !strings.Contains(is.head, "\x00") && utf8.ValidString(is.head[:max(0, len(is.head)-utf8.UTFMax)])
	if is.text && was.text && is.state.Ino == was.state.Ino && is.state.Size > was.state.Size {
		before, err := sample(f, max(0, was.state.Size-growthSample), was.state.Size)
		if err != nil {
			return false, false, err
		}
		if before == was.tail && strings.HasPrefix(is.head, was.head) {
			is.times = was.times + 1
		}
	}
	g[e.name] = is
	return is.text, is.times >= growthTimes, nil
}

// sample reads the bytes from an offset, and not behind end.
func sample(r io.ReaderAt, from, end int64) (string, error) {
	b := make([]byte, min(growthSample, end-from))
	n, err := r.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), err
}

// noteGrowth remembers when the fresh entries became larger: a save of many bytes is under way
// then.
func (c *Watcher) noteGrowth(fresh []*entry, now time.Time) {
	var bytes int64
	for _, e := range fresh {
		for _, f := range e.files {
			bytes += f.State.Size
		}
	}
	if bytes > c.bytes {
		c.grew = now
	}
	c.bytes = bytes
}
