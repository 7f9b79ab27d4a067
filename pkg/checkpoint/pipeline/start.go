package pipeline

import (
	"context"
	"errors"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// Source describes the saves of one generation.
type Source struct {
	Dir     capture.Dir
	Stamp   manifest.Stamp // of that generation
	Writers Writers
	Resume  *manifest.Manifest // the checkpoint that Prepare restored; nil: none
}

// Start starts to watch for the saves of a generation. Call it before the workers start. The
// pipeline ends after Close or Finish, with ctx, or when a newer generation fences it. It then
// reports Closed.
func Start(ctx context.Context, r *replicator.Replicator, from Source) (*Pipeline, error) {
	writers := from.Writers
	writers.Share = writers.share(r.Self, from.Resume)
	c, err := capture.Watch(from.Dir, from.Stamp, writers.Workers, from.Resume)
	if err != nil {
		return nil, err
	}
	l := newPipeline(r, c)
	if c.RecordFingerprints(r.Store) != nil {
		// the next try may succeed
		l.fingerprints = func() error { return c.RecordFingerprints(r.Store) }
	}
	l.begin(ctx, writers.With)
	return l, nil
}

func newPipeline(r *replicator.Replicator, c watcher) *Pipeline {
	return &Pipeline{replicator: r, capture: c, stamp: c.Stamp(), closing: make(chan bool, 1),
		observe: make(chan chan struct{}),
		done:    make(chan struct{}), made: map[manifest.Hash]bool{}}
}

func (l *Pipeline) begin(ctx context.Context, with *Sharing) {
	go func() {
		defer close(l.done)
		ctx, cancel := context.WithCancel(ctx)
		l.share(ctx, with)
		err := errors.Join(l.run(ctx), l.capture.Close())
		cancel()
		l.away.Wait()
		l.replicator.Report(replicator.Closed{Generation: l.stamp.Generation, Err: err, Left: l.left})
	}()
}
