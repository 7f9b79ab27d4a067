package checkpoint

import (
	"context"
	"errors"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Start begins to watch dir for the saves of the stamp's generation; call it
// before its workers start. resume is what Prepare put back. The line ends
// after Close, with ctx, or when a newer generation fences it; then it reports Closed.
func (k *Keeper) Start(ctx context.Context, dir capture.Dir, stamp manifest.Stamp, writers Writers,
	resume *manifest.Manifest) (*Pipeline, error) {
	writers.Share = writers.share(k.Self, resume)
	c, err := capture.Watch(dir, stamp, writers.Workers, resume)
	if err != nil {
		return nil, err
	}
	l := k.newPipeline(c)
	if c.TakeInventory(k.Store) != nil {
		l.inventory = func() error { return c.TakeInventory(k.Store) } // a disk that failed once may take it later
	}
	l.begin(ctx, writers.With)
	return l, nil
}

func (k *Keeper) start(ctx context.Context, c watcher, with *Sharing) *Pipeline {
	l := k.newPipeline(c)
	l.begin(ctx, with)
	return l
}

func (k *Keeper) newPipeline(c watcher) *Pipeline {
	return &Pipeline{k: k, capture: c, stamp: c.Stamp(), closing: make(chan bool, 1), observe: make(chan chan struct{}),
		done: make(chan struct{}), made: map[manifest.Hash]bool{}}
}

func (l *Pipeline) begin(ctx context.Context, with *Sharing) {
	go func() {
		defer close(l.done)
		ctx, cancel := context.WithCancel(ctx)
		l.share(ctx, with)
		err := errors.Join(l.run(ctx), l.capture.Close())
		cancel()
		l.away.Wait()
		l.k.Report(Closed{l.stamp.Generation, err, l.left})
	}()
}
