package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrStoreBehind says that the store shows an older head than this node knows: it was set back.
// Nothing is removed, and nothing committed, until the job is made again.
var ErrStoreBehind = errors.New("the store is behind the commits that this node knows")

// Read is Record.Read, held to the commits that this node knew before it asked: reads are
// linearizable.
func (r *Replicator) Read(ctx context.Context) (head manifest.Head, committed []manifest.Head, err error) {
	known := r.known()
	head, committed, err = r.Record.Read(ctx)
	if err != nil {
		return head, committed, err
	}
	if head.Number < known {
		return manifest.Head{}, nil,
			fmt.Errorf("it shows %d, known is %d: %w", head.Number, known, ErrStoreBehind)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, head.Number)
	return head, committed, nil
}

// known is the newest commit of this job that this node knows. A checkpoint that came too late does
// not count: its number is from before the job was made again.
func (r *Replicator) known() manifest.Number {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.Store.Newest(); ok && r.looked && r.late == nil {
		return max(r.newest, h.Number)
	}
	return r.newest
}
