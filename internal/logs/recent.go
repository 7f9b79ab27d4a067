package logs

import (
	"bytes"
	"time"
)

// RecentLines knows when the end of a stream was written. The zero value is ready.
type RecentLines struct {
	end   int64 // of the stream
	marks []LineMark
}

// Add notes that the next n bytes were written now; last is how many bytes are asked for at most.
func (r *RecentLines) Add(n int, now time.Time, last int64) {
	at := len(r.marks)
	if at == 0 || now.Sub(r.marks[at-1].Time).Abs() >= closest {
		r.marks = append(r.marks, LineMark{r.end, now})
	}
	r.end += int64(n)
	for len(r.marks) > 1 && r.marks[1].Offset <= r.end-last {
		r.marks = r.marks[1:]
	}
}

// LastLines says that the last Lines lines of a text were written at Time or later. It is the type in
// the record rendezvous.Output.
type LastLines = struct {
	Lines int       `json:"lines"`
	Time  time.Time `json:"time"`
}

// mostRecent bounds the answer of Lines.
const mostRecent = 128

// Lines returns the times of the lines of text, which is the end of the stream, oldest first.
func (r *RecentLines) Lines(text []byte) (all []LastLines) {
	from := r.end - int64(len(text))
	each := (len(r.marks) + mostRecent - 1) / mostRecent
	for i, m := range r.marks {
		if i%each == 0 {
			all = append(all, LastLines{Lines: linesFrom(text, int(max(0, m.Offset-from))), Time: m.Time})
		}
	}
	return all
}

// linesFrom counts the lines of text that begin at offset at or later.
func linesFrom(text []byte, at int) int {
	if at >= len(text) {
		return 0
	}
	n := bytes.Count(text[at:len(text)-1], []byte("\n"))
	if at == 0 || text[at-1] == '\n' {
		n++
	}
	return n
}
