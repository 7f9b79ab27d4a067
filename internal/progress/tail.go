// Package progress reads the progress that workers report, from a file, and passes it on.
package progress

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"regexp"
	"time"

	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Tail reads the lines that were appended to a file since the last Read.
type Tail struct {
	path string
	at   int64
	// expression finds the figures in a log; nil: the lines are JSON.
	expression *regexp.Regexp
	last       rendezvous.Progress
	total      total
	nan        bool   // a loss was not a finite number
	nanAt      *int64 // the step of the first such; nil: not known
	pace       pace
	began      time.Time
}

// NewTail reads JSON lines, as in $ELASTIC_PROGRESS_FILE, from the start of the file. A first step
// that ended before now belongs to an older generation.
func NewTail(path string) *Tail { return &Tail{path: path, began: time.Now()} }

// NewLogTail reads the matches of an expression in a log, starting at its current end.
func NewLogTail(path string, e *regexp.Regexp) *Tail {
	return &Tail{path: path, at: lengthOf(path), expression: e}
}

// NewJSONTail reads JSON lines from the current end of the file.
func NewJSONTail(path string) *Tail { return NewLogTail(path, nil) }

// LossNaN reports whether a loss was not a finite number, and the step of the first such, nil if that
// is not known.
func (t *Tail) LossNaN() (step *int64, seen bool) { return t.nanAt, t.nan }

// Read reads the new lines. It returns false if there are none. The time of the progress is that of
// the last write to the file.
func (t *Tail) Read() (rendezvous.Progress, bool) {
	f, err := regular.Open(t.path)
	if err != nil {
		return t.last, false
	}
	defer f.Close()
	if lengthOf(t.path) < t.at {
		t.at = 0 // the log was rotated
	}
	if _, err := f.Seek(t.at, io.SeekStart); err != nil {
		return t.last, false
	}
	lines := 0
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		b, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			t.at += int64(len(b)) // longer than any line of progress: skip it
			continue
		}
		if err != nil {
			break // an unfinished line
		}
		t.at += int64(len(b))
		if t.take(bytes.TrimSpace(b)) {
			lines++
		}
	}
	written, err := f.Stat()
	if lines == 0 || err != nil {
		return t.last, false
	}
	t.last.Time = written.ModTime()
	t.pace.add(point{at: t.last.Time, lines: lines, steps: t.last.Step, samples: t.last.Samples})
	t.last.SamplesPerSecond, t.last.Interval = t.pace.rate(samplesOf), t.pace.interval()
	t.last.Done, t.last.Left = t.total.left(&t.last, &t.pace)
	return t.last, true
}

// take reads one line. It returns false if the line has no progress.
func (t *Tail) take(b []byte) bool {
	l, ok := lineOf(t.expression, b)
	if !ok {
		return false
	}
	if l.Step != nil {
		t.last.Step = l.Step
	}
	if l.Loss != nil {
		t.takeLoss(*l.Loss)
	}
	if l.Samples != nil {
		t.last.Samples = l.Samples
	}
	if l.First != nil {
		if at := time.UnixMicro(int64(*l.First * 1e6)); at.After(t.began) && !at.After(time.Now()) {
			t.last.First = &at
		}
	}
	if l.Before != nil {
		if at := time.UnixMicro(int64(*l.Before * 1e6)); at.Before(t.began) {
			t.last.Before = &at
		}
	}
	t.total.take(l)
	return true
}

func (t *Tail) takeLoss(v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		t.last.Loss = &v
		return
	}
	t.last.Loss = nil
	if !t.nan {
		t.nan, t.nanAt = true, t.last.Step
	}
}
