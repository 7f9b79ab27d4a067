package rendezvous

import (
	"context"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Output is the end of what a worker wrote that failed. It outlives the node of the worker.
type Output struct {
	Node    string    `json:"node"`
	Rank    int       `json:"rank"`
	Process string    `json:"process,omitempty"` // one that is no trainer: server 0
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
	// Times say when lines of Text were written, oldest first. None: not known.
	Times []LastLines `json:"times,omitempty"`
}

// LastLines says that the last Lines lines of a text were written at Time or later.
type LastLines = struct {
	Lines int       `json:"lines"`
	Time  time.Time `json:"time"`
}

// LineTime returns when line i of the n lines of Text was written; zero: not known.
func (o *Output) LineTime(i, n int) (t time.Time) {
	for _, last := range o.Times {
		if i < n-last.Lines {
			break
		}
		t = last.Time
	}
	return t
}

// ReadOutput returns the output of the worker that failed first in generation g; nil: none was kept.
func ReadOutput(
	ctx context.Context, s store.Store, job schema.Job, g schema.Generation,
) (*Output, error) {
	r, err := s.Get(ctx, job.Output(g), "")
	if err != nil || r.One() == nil {
		return nil, err
	}
	o, err := schema.Decode[Output](r.One())
	return &o, err
}
