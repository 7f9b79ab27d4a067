package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrStoreBehind means that the store shows an older head than this node knows: the store was set
// back. Nothing is removed or committed until the job is made again.
var ErrStoreBehind = errors.New("the store is behind the commits that this node knows")

// Read is Record.Read. It fails if the result lacks a commit that this node knew before. Reads are
// linearizable, so the store then lost the commit.
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

// known returns the newest commit of this job that this node knows. It ignores a checkpoint
// of an earlier job.
func (r *Replicator) known() manifest.Number {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.Store.Newest(); ok && r.looked && r.brought == nil {
		return max(r.newest, h.Number)
	}
	return r.newest
}
