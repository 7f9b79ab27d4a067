package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// told is how often progress is written to the store at most.
const told = 2 * time.Second

// progress passes on what rank 0's worker tells of its training, for as long as its group lives. It is
// for people: what is lost is made good by the next line.
func (w *workers) progress(done <-chan struct{}, world rendezvous.World, dir string) {
	tail := progressTail{path: filepath.Join(dir, "progress.jsonl")}
	tick := time.NewTimer(membership.UntilTick(time.Now(), told))
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-w.ctx.Done():
			return
		case <-tick.C:
			tick.Reset(membership.UntilTick(time.Now(), told))
		}
		p, ok := tail.read()
		if !ok {
			continue
		}
		job := w.o.Job.Name
		// An error says nothing that anybody waits for.
		_, _ = w.store.Txn(w.ctx, store.Txn{
			If:   []store.Guard{schema.FenceIs(job, world.UID, world.Generation)},
			Then: []store.Write{store.Put(job.Progress(), schema.Encode(p))},
		})
	}
}

// progressTail reads the lines that were appended since it last looked.
type progressTail struct {
	path string
	at   int64
	last rendezvous.Progress
	pace pace
}

// line is one line of $ELASTIC_PROGRESS_FILE: any subset.
type line struct {
	Step    *int64   `json:"step"`
	Loss    *float64 `json:"loss"`
	Samples *int64   `json:"samples"`
}

// read takes what is new; false: nothing is. The newest line is as old as the last write to the file.
func (t *progressTail) read() (rendezvous.Progress, bool) {
	f, err := os.Open(t.path)
	if err != nil {
		return t.last, false
	}
	defer f.Close()
	if _, err := f.Seek(t.at, io.SeekStart); err != nil {
		return t.last, false
	}
	lines := 0
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		b, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			t.at += int64(len(b)) // no line of ours is that long
			continue
		}
		if err != nil {
			break // the rest is a line that is not finished yet
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
	t.pace.add(point{at: t.last.Time, lines: lines, samples: t.last.Samples})
	t.last.SamplesPerSecond, t.last.Interval = t.pace.rate(), t.pace.interval()
	return t.last, true
}

// take reads one line; false: it is none.
func (t *progressTail) take(b []byte) bool {
	var l line
	if json.Unmarshal(b, &l) != nil {
		return false
	}
	if l.Step != nil {
		t.last.Step = l.Step
	}
	if l.Loss != nil {
		t.last.Loss = l.Loss
	}
	if l.Samples != nil {
		t.last.Samples = l.Samples
	}
	return true
}
