package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrStoreBehind means that the store shows an older head than this node has: the store was set
// back. Nothing is removed or committed until the job is made again.
var ErrStoreBehind = errors.New("the store is behind the commits that this node knows")

// Read is Record.Read. It fails if the result lacks a commit that this node has. What this node only read of is
// not asked for: nobody could bring it when the job is made again.
func (r *Replicator) Read(ctx context.Context) (head manifest.Head, committed []manifest.Head, err error) {
	has := r.has()
	head, committed, err = r.Record.Read(ctx)
	if err != nil {
		return head, committed, err
	}
	if head.Number < has {
		return manifest.Head{}, nil, fmt.Errorf("it shows %d, this node has %d: %w", head.Number, has, ErrStoreBehind)
	}
	return head, committed, nil
}

// has returns the newest commit of this job of which this node has a copy. It ignores a checkpoint of an
// earlier job.
func (r *Replicator) has() manifest.Number {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.Store.Newest(); ok && r.looked && r.brought == nil {
		return h.Number
	}
	return 0
}
