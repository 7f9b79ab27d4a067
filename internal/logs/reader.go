package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/regular"
)

// longestLine is where a line is cut if it does not end before.
const longestLine = 64 << 10

// reader selects the lines of a query from the files of one worker.
type reader struct {
	q       Query
	emit    func(Line) error
	section Header
	inside  bool // the lines after the last header belong to the query
}

// line handles one line, without its end. when is asked for its time.
func (r *reader) line(text string, when func() time.Time) error {
	if h, ok := parseHeader(text); ok {
		r.section, r.inside = h, r.q.wants(h)
		return nil
	}
	if !r.inside {
		return nil
	}
	t := when()
	if !r.q.Covers(t) {
		return nil
	}
	return r.emit(Line{Generation: r.section.Generation, Rank: r.section.Rank, Time: t,
		Process: r.section.Process, Node: r.section.Node, Text: strings.ToValidUTF8(text, "?")})
}

// file reads one file to its end. It ignores a file that was removed meanwhile.
func (r *reader) file(ctx context.Context, path string) error {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	g := &followedFile{path: path}
	g.begin(f)
	defer g.close()
	err = g.rest(func(text string, when func() time.Time) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return r.line(text, when)
	})
	if err == nil && g.part != "" {
		err = r.line(g.part, g.when)
	}
	return err
}

// poll is how often a followed log is read.
const poll = 200 * time.Millisecond

// follow reads the logs of all workers at the same time, and waits for new lines. It also finds
// logs that appear later, because a later generation may have more workers.
func follow(ctx context.Context, dir string, q Query, emit func(Line) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	one := func(l Line) error {
		mu.Lock()
		defer mu.Unlock()
		return emit(l)
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel(nil)
	known := map[string]bool{}
	for {
		paths, err := workerLogs(dir)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if known[path] {
				continue
			}
			known[path] = true
			q := q
			readers.Go(func() {
				if err := followWorker(ctx, path, q, one); err != nil {
					cancel(err)
				}
			})
		}
		q.Last = 0 // a log that appears later is read from its beginning
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * poll):
		}
	}
}

// followWorker reads the existing lines of a log, then the new ones. It ends with ctx.
func followWorker(ctx context.Context, path string, q Query, emit func(Line) error) error {
	q.Follow = false
	files, err := filesOf(path, q)
	if err != nil {
		return err
	}
	end := &tail{most: q.Last, emit: emit}
	r := &reader{q: q, emit: end.line}
	for _, older := range files[:len(files)-1] {
		if err := r.file(ctx, older); err != nil {
			return err
		}
	}
	g := &followedFile{path: path}
	defer g.close()
	for {
		if err := g.lines(r.line); err != nil {
			return err
		}
		if err := end.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// followedFile is a file that other processes append to and rotate.
type followedFile struct {
	path string
	f    *os.File
	in   *bufio.Reader
	at   int64  // offset of part
	part string // an unfinished line

	times *LineTimes
}

// take handles a line, whose time is what when returns.
type take func(line string, when func() time.Time) error

func (g *followedFile) begin(f *os.File) {
	g.f, g.in, g.times = f, bufio.NewReaderSize(f, longestLine), TimesOf(f)
	g.at = -int64(len(g.part)) // which is from the file before
}

// when returns when the line at g.at was written.
func (g *followedFile) when() time.Time { return g.times.At(max(0, g.at)) }

// lines calls take with the lines added since the last call. If the file was rotated, it continues
// in the next file.
func (g *followedFile) lines(take take) error {
	for range 2 {
		if g.f == nil {
			f, err := regular.Open(g.path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read log: %w", err)
			}
			g.begin(f)
		}
		moved := g.rotated() // first: the read after it then reaches the end of the old file
		if err := g.rest(take); err != nil || !moved {
			return err
		}
		g.close()
	}
	return nil
}

// rest reads to the current end of the file.
func (g *followedFile) rest(take take) error {
	for {
		text, err := g.in.ReadSlice('\n')
		g.part += string(text)
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			line := strings.TrimRight(g.part, "\r\n")
			err := take(line, g.when)
			g.at, g.part = g.at+int64(len(g.part)), ""
			if err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
	}
}

// rotated reports whether path is another file now.
func (g *followedFile) rotated() bool {
	here, err := g.f.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(g.path)
	return err != nil || !os.SameFile(here, there)
}

func (g *followedFile) close() {
	if g.f != nil {
		g.f.Close()
		g.times.Close()
	}
	g.f = nil
}
