package replicator

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// lateFor is how long a node that did not answer is asked for a copy after all others. Its agent may live
// while its disk stands still, and each save would wait for it.
const lateFor = 30 * time.Second

// lateAfter is how long a node gives no answer until it is late. One whose agent ended is not
// registered by then.
const lateAfter = 5 * time.Second

// Late reports that a node, whose agent lives, did not answer when it was sent a copy.
type Late struct{ Node string }

func (Late) event() {}

// Targets returns the nodes for n copies of what this node has.
func (r *Replicator) Targets(nodes []membership.Node, n int) []membership.Node {
	return transfer.Targets(nodes, r.Self, n, func(x membership.Node) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return time.Since(r.late[x.Node]) < lateFor
	})
}

// noting are the peers of a Replicator. It notes which of them do not answer.
type noting struct {
	transfer.Peers
	r *Replicator
}

func (p noting) Offer(
	ctx context.Context, to membership.Ref, g schema.Generation, raw []byte,
) ([]manifest.Hash, error) {
	began := time.Now()
	missing, err := p.Peers.Offer(ctx, to, g, raw)
	p.r.note(ctx, to, began, err)
	return missing, err
}

func (p noting) WriteChunk(ctx context.Context, to membership.Ref, c chunkstore.Upload) error {
	began := time.Now()
	err := p.Peers.WriteChunk(ctx, to, c)
	p.r.note(ctx, to, began, err)
	return err
}

// note notes how a request to a node ended.
func (r *Replicator) note(ctx context.Context, to membership.Ref, began time.Time, err error) {
	late := errors.Is(err, transfer.ErrNoAnswer) && time.Since(began) >= lateAfter
	if ctx.Err() != nil || err != nil && !late {
		return
	}
	r.mu.Lock()
	_, was := r.late[to.Node]
	delete(r.late, to.Node)
	if late {
		if r.late == nil {
			r.late = map[string]time.Time{}
		}
		r.late[to.Node] = time.Now()
	}
	r.mu.Unlock()
	if late && !was {
		r.Report(Late{to.Node})
	}
}
