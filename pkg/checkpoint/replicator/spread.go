package replicator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Spread ensures that n other nodes hold the checkpoint, or all nodes if there are fewer. It is
// used after a commit with a single copy, and before this node leaves. It acts in generation g, or
// in the newest one that this node has seen. The checkpoint may be of an older generation.
func (r *Replicator) Spread(ctx context.Context, g schema.Generation, h manifest.Hash, n int) error {
	g = max(g, r.Store.Generation())
	var failed []string
	held := 0
	for {
		nodes, _ := r.View()
		nodes = slices.DeleteFunc(slices.Clone(nodes),
			func(x membership.Node) bool { return slices.Contains(failed, x.Node) })
		to := r.Targets(nodes, n)
		if held >= len(to) {
			if len(to) < n && len(failed) > 0 {
				return fmt.Errorf("checkpoint %v: %d copies elsewhere, %d wanted; no answer from %v",
					h, held, n, failed)
			}
			return nil
		}
		got, err := r.Replicate(ctx, g, h, to)
		if ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced) {
			return err
		}
		held = len(got)
		for _, x := range to {
			if !slices.ContainsFunc(got, func(y membership.Node) bool { return y.Node == x.Node }) {
				failed = append(failed, x.Node)
			}
		}
	}
}

// Replicate is Copier.Replicate. It ends early if a target is no longer registered.
func (r *Replicator) Replicate(
	ctx context.Context, g schema.Generation, h manifest.Hash, to []membership.Node,
) ([]membership.Node, error) {
	ctx, stop := r.whileRegistered(ctx, to)
	defer stop()
	c := transfer.Copier{Store: r.Store, Peers: noting{r.Peers, r}, Generation: g,
		Report: func(done, total int64) { r.Report(Moving{"replicate", done, total}) }}
	return c.Replicate(ctx, h, to)
}

// Put copies a save into the store. Meanwhile it sends the chunks to the nodes that Replicate will
// choose. A part is sent only after it is complete here. The errors are those of chunkstore.Put.
func (r *Replicator) Put(
	ctx context.Context, save chunkstore.Save,
) (*manifest.Manifest, manifest.Hash, error) {
	nodes, _ := r.View()
	to := r.Targets(nodes, r.Replicas-1)
	if save.Part || len(to) == 0 {
		return r.Store.Put(ctx, save)
	}
	forwarding, stop := r.whileRegistered(ctx, to)
	defer stop()
	c := transfer.Copier{Store: r.Store, Peers: noting{r.Peers, r}}
	f := c.Forward(forwarding, manifest.Position{Generation: save.Generation, Sequence: save.Sequence}, to)
	m, h, err := r.Store.PutFollowed(ctx, save, f.Add)
	if err != nil {
		stop()
	}
	f.Close()
	return m, h, err
}

// whileRegistered returns a context that ends when one of the nodes is no longer registered.
func (r *Replicator) whileRegistered(
	ctx context.Context, to []membership.Node,
) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nodes, moved := r.View()
			for _, x := range to {
				if !slices.ContainsFunc(nodes, func(n membership.Node) bool { return n.Same(x.Ref) }) {
					cancel()
				}
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		wg.Wait()
	}
}

// CopyAway copies a checkpoint to nodes that lost their registration but still answer. A commit
// cannot name them as holders, but their copy can still be used.
func (r *Replicator) CopyAway(ctx context.Context, g schema.Generation, h manifest.Hash) error {
	r.mu.Lock()
	to := slices.Clone(r.away)
	r.mu.Unlock()
	if len(to) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, awayLimit)
	defer cancel()
	c := transfer.Copier{Store: r.Store, Peers: r.Peers, Generation: max(g, r.Store.Generation())}
	_, err := c.Replicate(ctx, h, to)
	return err
}

const awayLimit = 30 * time.Second
