package replicator

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Spread copies a checkpoint to n registered nodes that are not in have, or to all of them if there are
// fewer. It returns those that acknowledged. A node that fails, or that is no longer registered, is replaced
// by another one; the error says why there are fewer than n copies.
func (r *Replicator) Spread(
	ctx context.Context, g schema.Generation, h manifest.Hash, have []membership.Node, n int,
) (got []membership.Node, err error) {
	tried := slices.Clone(have)
	for len(got) < n {
		nodes, _ := r.View()
		to := r.Targets(slices.DeleteFunc(slices.Clone(nodes), func(x membership.Node) bool {
			return x.Node != r.Self && slices.ContainsFunc(tried, func(y membership.Node) bool { return y.Same(x.Ref) })
		}), n-len(got))
		if len(to) == 0 {
			return got, err
		}
		sending, stop := r.whileRegistered(ctx, to)
		c := transfer.Copier{Store: r.Store, Peers: noting{r.Peers, r}, Generation: g,
			Report: func(done, total int64) { r.Report(Moving{"replicate", done, total}) }}
		more, failed := c.Replicate(sending, h, to)
		stop()
		got, tried, err = append(got, more...), append(tried, to...), errors.Join(err, failed)
		if ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced) {
			return got, err
		}
	}
	return got, nil
}

// Put copies a save into the store. Meanwhile it sends the chunks to the nodes that Spread will
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
