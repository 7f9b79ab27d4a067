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
