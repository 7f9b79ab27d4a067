package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// told is how often progress is written to the store at most.
const told = 2 * time.Second

// progress passes on what rank 0's worker tells of its training, for as long as its group lives. It is
// for people: what is lost is made good by the next line.
func (w *workers) progress(done <-chan struct{}, world rendezvous.World, dir string) {
	tail := progressTail{path: filepath.Join(dir, "progress.jsonl")}
	if e := w.o.ProgressRegex; e != nil {
		log := w.logs.Path(0)
		tail = progressTail{path: log, at: lengthOf(log), expression: e}
	}
	tick := time.NewTimer(membership.UntilTick(time.Now(), told))
	defer tick.Stop()
	for ended, reported := false, false; !ended; {
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
		p.Generation = world.Generation
		if tail.nan && !reported {
			reported = w.reportNaN(world, p.Step)
		}
		job := w.o.Job.Name
		// An error says nothing that anybody waits for.
		_, _ = w.store.Txn(w.ctx, store.Txn{
			If:   []store.Guard{schema.FenceIs(job, world.UID, world.Generation)},
			Then: []store.Write{store.Put(job.Progress(), schema.Encode(p))},
		})
	}
}

// reportNaN tells that the loss is not a number, and ends the generation where the job says so. What
// is not told now is told with the next line.
func (w *workers) reportNaN(world rendezvous.World, step *int64) bool {
	rule := w.job.Load().Rules.OnNaN
	me := world.Members[0]
	err := txn.Requests{Store: w.store, Job: w.o.Job.Name}.LossNaN(w.ctx, &world,
		rendezvous.Failure{Node: me.Node, Incarnation: me.Incarnation, Code: 1, Step: step, NaN: true, Time: time.Now()},
		rule == rendezvous.NaNFails || rule == rendezvous.NaNRollback)
	return err == nil
}

// lastTold is the last step that a worker told in a run directory, and whether its loss was not a number then.
func lastTold(dir string) (step *int64, nan bool) {
	tail := progressTail{path: filepath.Join(dir, "progress.jsonl")}
	p, _ := tail.read()
	return p.Step, tail.nan
}

// progressTail reads the lines that were appended since it last looked.
type progressTail struct {
	path string
	at   int64
	// expression finds the figures in a log; nil: the lines are JSON.
	expression *regexp.Regexp
	last       rendezvous.Progress
	nan        bool // the newest loss is not a finite number
	pace       pace
}

// line is one line of $ELASTIC_PROGRESS_FILE: any subset.
type line struct {
	Step    *int64 `json:"step"`
	Loss    *loss  `json:"loss"`
	Samples *int64 `json:"samples"`
}

// loss is a number, or what programs write for one that is not finite.
type loss float64

func (l *loss) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*l = loss(v)
	return err
}

// notFinite are the words of Python's json for what JSON has no word for.
var notFinite = regexp.MustCompile(`"loss"\s*:\s*(-?Infinity|NaN)\b`)

// read takes what is new; false: nothing is. The newest line is as old as the last write to the file.
func (t *progressTail) read() (rendezvous.Progress, bool) {
	f, err := regular.Open(t.path)
	if err != nil {
		return t.last, false
	}
	defer f.Close()
	if lengthOf(t.path) < t.at {
		t.at = 0 // a log that was rotated begins again
	}
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

func jsonLine(b []byte) (l line, ok bool) {
	err := json.Unmarshal(notFinite.ReplaceAll(b, []byte(`"loss":"$1"`)), &l)
	return l, err == nil
}

// take reads one line; false: it is none.
func (t *progressTail) take(b []byte) bool {
	l, ok := lineOf(t.expression, b)
	if !ok {
		return false
	}
	if l.Step != nil {
		t.last.Step = l.Step
	}
	if l.Loss != nil {
		v := float64(*l.Loss)
		if t.nan = math.IsNaN(v) || math.IsInf(v, 0); t.nan {
			t.last.Loss = nil
		} else {
			t.last.Loss = &v
		}
	}
	if l.Samples != nil {
		t.last.Samples = l.Samples
	}
	return true
}
