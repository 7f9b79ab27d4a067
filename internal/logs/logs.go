// Package logs reads the logs of a job's workers: from the log directory of this machine, and from
// other nodes through their listeners.
package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/regular"
)

// Query selects lines.
type Query struct {
	Job        string
	Generation uint64    // 0: all generations
	From       uint64    // this generation and later ones
	Ranks      []int     // nil: all ranks
	Since      time.Time // files last written before it belong to an earlier job of that name
	After      time.Time // lines known to be written before it are left out
	Until      time.Time // and those after it; zero: none
	Last       int       // number of lines of each rank; 0: all
	Follow     bool      // also read new lines, until the context ends
}

// noRank is the rank of a process that is not a trainer.
const noRank = -1

// Line is one line of one worker.
type Line struct {
	Generation uint64 `json:"generation"`
	Rank       int    `json:"rank"`
	// like "server 0" or "waiting worker", if it is not a trainer; Rank is then -1
	Process string    `json:"process,omitempty"`
	Node    string    `json:"node"`
	Time    time.Time `json:"time,omitzero"` // when it was written; zero: not known
	Text    string    `json:"line"`
}

// wants reports whether the query selects the lines after a header.
func (q Query) wants(h Header) bool {
	return (q.Generation == 0 || q.Generation == h.Generation) && q.From <= h.Generation &&
		(h.Job == "" || h.Job == q.Job) &&
		(q.Ranks == nil || slices.Contains(q.Ranks, h.Rank))
}

// Covers reports whether a line of that time may be wanted. A line without a time may.
func (q Query) Covers(t time.Time) bool {
	return t.IsZero() || !t.Before(q.After) && (q.Until.IsZero() || !t.After(q.Until))
}

// Header is the line before the output of one start of one worker.
type Header struct {
	Generation uint64
	Rank       int
	Process    string
	Node, Job  string
}

// parseHeader reads "---- elastic: generation 2, rank 3, world size 4, node b, job x, TIME ----". A
// process that is not a trainer has its name instead of the rank, like "server 0". A worker that is
// in no generation yet has "---- elastic: since generation 2, waiting worker, node b, job x, TIME
// ----".
func parseHeader(line string) (Header, bool) {
	rest, ok := strings.CutPrefix(line, "---- elastic: generation ")
	if !ok {
		rest, ok = strings.CutPrefix(line, "---- elastic: since generation ")
	}
	if !ok || !strings.HasSuffix(rest, " ----") {
		return Header{}, false
	}
	var h Header
	generation, more, _ := strings.Cut(rest, ", ")
	var err error
	if h.Generation, err = strconv.ParseUint(generation, 10, 64); err != nil {
		return Header{}, false
	}
	for field := range strings.SplitSeq(more, ", ") {
		name, value, _ := strings.Cut(field, " ")
		switch name {
		case "rank":
			if h.Rank, err = strconv.Atoi(value); err != nil {
				return Header{}, false
			}
		case "server", "heter", "waiting":
			h.Rank, h.Process = noRank, field
		case "node":
			h.Node = value
		case "job":
			h.Job = value
		}
	}
	return h, h.Node != ""
}

// Read calls emit with the lines that q selects, for one worker after the other. With Follow it
// reads all workers at the same time. It returns the error of emit, or says which file could not be
// read.
func Read(ctx context.Context, dir string, q Query, emit func(Line) error) error {
	if q.Follow {
		return follow(ctx, dir, q, emit)
	}
	paths, err := workerLogs(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := readWorker(ctx, path, q, emit); err != nil {
			return err
		}
	}
	return nil
}

// stems are the names of logs without their number, trainers first.
var stems = []string{"workerlog", "heterlog", "serverlog"}

// workerLogs lists the logs in use, by role and local rank.
func workerLogs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	type found struct {
		stem, rank int
		name       string
	}
	var all []found
	for _, e := range entries {
		stem, number, _ := strings.Cut(e.Name(), ".")
		at := slices.Index(stems, stem)
		rank, err := strconv.Atoi(strings.TrimSuffix(number, ".err"))
		if at >= 0 && err == nil && rank >= 0 && e.Type().IsRegular() {
			all = append(all, found{at, rank, e.Name()})
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.rank, b.rank),
			strings.Compare(a.name, b.name))
	})
	var paths []string
	for _, f := range all {
		paths = append(paths, filepath.Join(dir, f.name))
	}
	return paths, nil
}

// readWorker reads the logs of one worker, from the oldest file that may have lines of q.
func readWorker(ctx context.Context, path string, q Query, emit func(Line) error) error {
	files, err := filesOf(path, q)
	if err != nil {
		return err
	}
	end := &tail{most: q.Last, emit: emit}
	r := &reader{q: q, emit: end.line}
	for _, file := range files {
		if err := r.file(ctx, file); err != nil {
			return err
		}
	}
	return end.flush()
}

// tail holds back the last lines of a worker until they are known to be its last ones.
type tail struct {
	most int // 0: it holds nothing back
	emit func(Line) error
	kept []Line
}

func (t *tail) line(l Line) error {
	if t.most == 0 {
		return t.emit(l)
	}
	t.kept = append(t.kept, l)
	if len(t.kept) >= 2*t.most+64 {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	return nil
}

// flush emits what was held back. Later lines pass at once.
func (t *tail) flush() error {
	kept := t.kept[max(0, len(t.kept)-t.most):]
	t.most, t.kept = 0, nil
	for _, l := range kept {
		if err := t.emit(l); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files of one worker that can have lines of q, oldest first: the log in use, and
// rotated ones back to the first that starts before the generation.
func filesOf(path string, q Query) ([]string, error) {
	files := []string{path}
	if begins(path, q) {
		return files, nil
	}
	older, err := rotated(path)
	if err != nil {
		return nil, err
	}
	for _, o := range slices.Backward(older) {
		info, err := os.Stat(o)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (info.ModTime().Before(q.Since) ||
			info.ModTime().Before(q.After)) {
			break
		}
		files = append(files, o)
		if begins(o, q) {
			break
		}
	}
	slices.Reverse(files)
	return files, nil
}

// begins reports whether a file starts with a generation of the job that is not newer than that of
// q. Older files then have no lines of q.
func begins(path string, q Query) bool {
	oldest := max(q.Generation, q.From)
	if oldest == 0 {
		return false
	}
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, 512)
	n, _ := f.Read(b)
	first, _, _ := strings.Cut(string(b[:n]), "\n")
	h, ok := parseHeader(first)
	return ok && (h.Job == "" || h.Job == q.Job) && h.Generation <= oldest
}

// rotated lists path.1, path.2 and so on, oldest first.
func rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		if tail, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.Atoi(tail); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	var paths []string
	for _, n := range numbers {
		paths = append(paths, fmt.Sprintf("%s.%d", path, n))
	}
	return paths, nil
}
