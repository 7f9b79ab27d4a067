// Package pipeline carries the saves of one generation from capture to commit. If each node writes
// a part of a save, the pipelines of all nodes report their parts, and that of rank 0 commits them
// as one checkpoint.
package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// Pipeline captures, puts, replicates and commits the saves of one generation. One goroutine
// handles one save after the other, so commits have the order of the captures.
type Pipeline struct {
	replicator *replicator.Replicator
	capture    watcher
	stamp      manifest.Stamp
	closing    chan bool          // Close sends false, Finish sends true
	observe    chan chan struct{} // requests of Observe; the pipeline closes the sent channel after a look
	done       chan struct{}

	// manifests that this pipeline made; another node may commit them when this one is gone
	made  map[manifest.Hash]bool
	left  *manifest.Manifest // the newest manifest in made, until it is committed or refused
	ended bool               // the workers have ended: the next look is the last

	fingerprints func() error // records the fingerprints if that failed at the start; else nil

	failures int       // how many looks in a row found a save that could not be copied
	tornSaid time.Time // when it was last reported that saves are overwritten
	said     map[capture.Reason]time.Time

	sharing *sharing // nil: each save is whole

	away    sync.WaitGroup
	copying atomic.Bool // copies to unregistered nodes are being made, one checkpoint at a time
}

// watcher finds the saves of one generation in one directory. *capture.Watcher implements it.
type watcher interface {
	Stamp() manifest.Stamp
	Look(now time.Time) (*capture.Picture, []capture.Refusal, error)
	Last(now time.Time) (*capture.Picture, []capture.Refusal, error)
	Taken(p *capture.Picture)
	Pause() time.Duration
	Rest() time.Duration
	Notice() <-chan struct{}
	Close() error
}

// Close ends the pipeline. It first commits the captured saves. Call Close or Finish, once.
func (l *Pipeline) Close() { l.closing <- false }

// Finish is Close after the workers ended. It first captures the complete saves that they left.
func (l *Pipeline) Finish() { l.closing <- true }

// Observe looks at the files now. It is called before workers are asked to end, so that files that
// were closed by then are known. It returns after the look, or when ctx ends.
func (l *Pipeline) Observe(ctx context.Context) {
	seen := make(chan struct{})
	select {
	case l.observe <- seen:
	case <-l.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-seen:
	case <-l.done:
	case <-ctx.Done():
	}
}

// Done is closed when the pipeline has ended.
func (l *Pipeline) Done() <-chan struct{} { return l.done }

func (l *Pipeline) run(ctx context.Context) error {
	timer, looked := time.NewTimer(l.capture.Rest()), time.Now()
	defer timer.Stop()
	came := l.capture.Notice()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case last := <-l.closing:
			if !last {
				return nil
			}
			l.ended, l.failures = true, 0
			if err := l.step(ctx); err != nil {
				return err
			}
			return l.settle(ctx)
		case seen := <-l.observe:
			err := l.step(ctx)
			close(seen)
			if err != nil {
				return err
			}
		case <-came:
			came = nil
			timer.Reset(l.capture.Pause() - time.Since(looked))
		case <-timer.C:
			if err := l.step(ctx); err != nil {
				return err
			}
			if err := l.gatherIfDue(ctx); err != nil {
				return err
			}
			timer.Reset(l.capture.Rest())
			came, looked = l.capture.Notice(), time.Now()
		case <-l.reported():
			if err := l.gather(ctx); err != nil {
				return err
			}
		}
	}
}

// step looks once, and commits what it finds. An error ends the pipeline.
func (l *Pipeline) step(ctx context.Context) error {
	look := l.capture.Look
	if l.ended {
		look = l.capture.Last
	}
	if l.fingerprints != nil && l.fingerprints() == nil {
		l.fingerprints = nil
	}
	p, refused, err := look(time.Now())
	for _, r := range refused {
		if !l.sharing.silent() {
			l.refuse(r)
		}
	}
	if err != nil { // the next look tries again
		l.refuse(capture.Refusal{Reason: cmp.Or(reason(err), capture.Unreadable),
			Err: fmt.Errorf("look for saves: %w", err)})
	}
	if p == nil {
		return nil
	}
	if !l.classify(p) {
		l.capture.Taken(p) // not in a shard format, and rank 0's node has its own: ignore it
		return nil
	}
	m, h, err := l.replicator.Put(ctx, p.Save)
	if err != nil {
		return l.failed(ctx, p, err)
	}
	l.failures = 0
	l.capture.Taken(p)
	if m.Part {
		return l.addPart(ctx, p, m, h)
	}
	return l.carry(ctx, p, m, h)
}
