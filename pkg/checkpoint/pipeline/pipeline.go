// Package pipeline carries the saves of one generation from capture to commit. Where each node
// writes a part of a save, the pipelines of all nodes report their parts, and that of rank 0
// commits them as one checkpoint.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/store"
)

// Pipeline captures, puts, replicates and commits the saves of one generation, one after the other,
// in one goroutine: so the commits of a generation have the order of its captures.
type Pipeline struct {
	replicator *replicator.Replicator
	capture    watcher
	stamp      manifest.Stamp
	closing    chan bool          // last, once
	observe    chan chan struct{} // closed after a look
	done       chan struct{}

	// manifests that this pipeline made; another node may commit them when this node is gone
	made  map[manifest.Hash]bool
	left  *manifest.Manifest // the newest that it made, until that is committed or refused
	ended bool               // the workers ended: a look is the last one
	blind bool               // the directory could not be read

	inventory func() error // takes the inventory that could not be taken yet; nil: it was

	torn time.Time // since when each save was written over while it was copied
	told time.Time // when that was last said
	said map[capture.Reason]time.Time

	sharing *sharing // nil: these workers write the whole of each save

	away    sync.WaitGroup
	copying atomic.Bool // to nodes that are away; one checkpoint at a time
}

// watcher finds the saves of one generation in one directory: a Capture.
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

// Close asks the pipeline to end: what is captured is carried through. Call Close or Finish, once.
func (l *Pipeline) Close() { l.closing <- false }

// Finish is Close for when the workers ended: what they left complete is captured first.
func (l *Pipeline) Finish() { l.closing <- true }

// Observe looks now, before the workers are told to end: what they closed by then is seen to be
// closed. It returns after the look, or when ctx ends.
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

// Done is closed when the pipeline ended.
func (l *Pipeline) Done() <-chan struct{} { return l.done }

func (l *Pipeline) run(ctx context.Context) error {
	timer, looked := time.NewTimer(l.capture.Rest()), time.Now()
	defer timer.Stop()
	notice := l.capture.Notice()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case last := <-l.closing:
			if !last {
				return nil
			}
			l.ended = true
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
		case <-notice:
			notice = nil
			timer.Reset(l.capture.Pause() - time.Since(looked))
		case <-timer.C:
			if err := l.step(ctx); err != nil {
				return err
			}
			if err := l.gatherIfDue(ctx); err != nil {
				return err
			}
			timer.Reset(l.capture.Rest())
			notice, looked = l.capture.Notice(), time.Now()
		case <-l.reported():
			if err := l.gather(ctx); err != nil {
				return err
			}
		}
	}
}

// step looks once, and carries what it finds. Its errors end the line.
func (l *Pipeline) step(ctx context.Context) error {
	look := l.capture.Look
	if l.ended {
		look = l.capture.Last
	}
	if l.inventory != nil && l.inventory() == nil {
		l.inventory = nil
	}
	p, refused, err := look(time.Now())
	for _, r := range refused {
		if !l.sharing.silent() {
			l.refuse(r)
		}
	}
	if err != nil && !l.blind { // said once, and tried again: it may be being moved about
		l.refuse(capture.Refusal{Reason: capture.BadPath, Err: fmt.Errorf("look for saves: %w", err)})
	}
	l.blind = err != nil
	if p == nil {
		return nil
	}
	if !l.classify(p) {
		l.capture.Taken(p) // of no shard format, beside rank 0's node: not a checkpoint's
		return nil
	}
	m, h, err := l.put(ctx, p.Save)
	if errors.Is(err, chunkstore.ErrTorn) && !l.ended {
		l.overtaken(p)
		return nil // it is being written again: the next look sees it
	}
	l.torn = time.Time{}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// not again, unless it changes
		l.capture.Taken(p)
		// torn: it cannot be read
		l.refuse(capture.Refusal{Reason: cmp.Or(reason(err), capture.Torn), Path: p.Save.Entry, Step: p.Save.Step,
			Err: err})
		if errors.Is(err, chunkstore.ErrFenced) {
			return err
		}
		return nil
	}
	l.capture.Taken(p)
	if m.Part {
		return l.addPart(ctx, p, m, h)
	}
	return l.carryMade(ctx, p, m, h)
}

// carryMade carries a whole save that is on this disk.
func (l *Pipeline) carryMade(ctx context.Context, p *capture.Picture, m *manifest.Manifest, h manifest.Hash) error {
	l.made[h], l.left = true, m
	err := l.carry(ctx, p, m, h)
	if err == nil || ctx.Err() == nil {
		l.left = nil
	}
	return err
}

// put copies the save. What a disk refused once it may take the next time, or when there is room.
func (l *Pipeline) put(ctx context.Context, save chunkstore.Save) (m *manifest.Manifest, h manifest.Hash, err error) {
	for range putAttempts {
		m, h, err = l.replicator.Put(ctx, save)
		switch {
		case err == nil || ctx.Err() != nil:
			return m, h, err
		case errors.Is(err, dirfs.ErrNoSpace):
			if l.replicator.DropSurplus(ctx, save.Generation) != nil || l.replicator.Tidy(ctx) != nil {
				return m, h, err
			}
		case reason(err) != "":
			return m, h, err
		}
	}
	return m, h, err
}

// reason is the contract's word for an error that trying again does not mend, or "".
func reason(err error) capture.Reason {
	for _, r := range []struct {
		err    error
		reason capture.Reason
	}{
		{chunkstore.ErrFenced, capture.Fenced},
		{chunkstore.ErrTorn, capture.Torn},
		{manifest.ErrBadPath, capture.BadPath},
		{manifest.ErrBadManifest, capture.BadPath},
		{dirfs.ErrNoSpace, capture.NoSpace},
		{dirfs.ErrQuarantined, capture.NoSpace},
	} {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return ""
}

func (l *Pipeline) refuse(r capture.Refusal) {
	if l.repeats(r.Reason, time.Now()) {
		return
	}
	l.replicator.Report(replicator.Refused{Generation: l.stamp.Generation, Refusal: r})
}

const (
	carryPatience = 30 * time.Second // for a save to find its copies, while newer ones are made
	carryPause    = 500 * time.Millisecond
	putAttempts   = 3
)

// carry replicates and commits. nil also when the save was refused.
func (l *Pipeline) carry(ctx context.Context, p *capture.Picture, m *manifest.Manifest, h manifest.Hash) error {
	head, err := l.protect(ctx, m, h)
	if err == nil {
		l.carried(ctx, p, m, head)
		if head.Copies < l.replicator.Replicas {
			l.copyAway(ctx, h)
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, chunkstore.ErrFenced) {
		l.refuse(capture.Refusal{Reason: capture.Fenced, Path: m.Entry, Step: m.Step, Err: err})
		return err
	}
	l.refuse(capture.Refusal{Reason: capture.TooFewNodes, Path: m.Entry, Step: m.Step, Err: err})
	return nil
}

// carried takes note of a commit.
func (l *Pipeline) carried(ctx context.Context, p *capture.Picture, m *manifest.Manifest, head manifest.Head) {
	_ = l.replicator.Store.AddCommitted(head) // if not, the next look at the record does
	_ = p.TakeInventory(l.replicator.Store)   // if not, more is set aside than need be, of what is useless
	l.replicator.Report(replicator.Committed{Head: head, Took: time.Since(p.Save.Time), Entry: m.Entry})
	// What cannot be removed now is removed after the next commit. The next save begins after that.
	_ = l.replicator.DropSurplus(ctx, l.stamp.Generation)
	_ = l.replicator.Tidy(ctx)
}

// headOf is the record that a manifest gets.
func headOf(m *manifest.Manifest, h manifest.Hash) manifest.Head {
	return manifest.Head{Generation: m.Generation, Manifest: h, Step: m.Step, Samples: m.Samples, Bytes: m.Bytes(),
		Time: time.Now().UTC()}
}

// protect commits with copies that hold at that moment.
func (l *Pipeline) protect(ctx context.Context, m *manifest.Manifest, h manifest.Hash) (manifest.Head, error) {
	var holders []membership.Node
	for {
		var err error
		if holders, err = l.copies(ctx, h, holders); err != nil {
			return manifest.Head{}, err
		}
		head, err := l.commit(ctx, headOf(m, h), holders)
		var gone *checkpoint.HolderGoneError
		if !errors.As(err, &gone) {
			return head, err
		}
		holders = slices.DeleteFunc(holders, func(n membership.Node) bool { return n.Node == gone.Node })
		if err := pause(ctx, nil); err != nil { // the view will hear of it too
			return manifest.Head{}, err
		}
	}
}

// pause waits for a moment, or until moved.
func pause(ctx context.Context, moved <-chan struct{}) error {
	timer := time.NewTimer(carryPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
	case <-timer.C:
	}
	return nil
}

// copies finds enough nodes that hold the manifest, this one first and then
// those that are known to. It waits for better times while too few answer, but
// not for ever: newer saves wait behind.
func (l *Pipeline) copies(ctx context.Context, h manifest.Hash, holders []membership.Node) ([]membership.Node, error) {
	began := time.Now()
	for {
		nodes, moved := l.replicator.View()
		holders = registered(nodes, holders, l.replicator.Self)
		var err error
		if len(holders) > 0 {
			if holders, err = l.more(ctx, h, nodes, holders); err != nil &&
				(ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced)) {
				return nil, err
			}
			if enough(nodes, holders, l.replicator.Replicas) {
				return holders, nil
			}
		}
		if time.Since(began) > carryPatience {
			return nil, errors.Join(fmt.Errorf("%d of %d copies", len(holders), l.replicator.Replicas), err)
		}
		if err := pause(ctx, moved); err != nil {
			return nil, err
		}
	}
}

// more replicates to one choice of nodes after the other, until there are copies enough or no node
// is left to ask.
func (l *Pipeline) more(
	ctx context.Context, h manifest.Hash, nodes, holders []membership.Node,
) ([]membership.Node, error) {
	rest := slices.DeleteFunc(slices.Clone(nodes), func(n membership.Node) bool {
		return n.Node != l.replicator.Self &&
			has(holders, n)
	})
	var errs []error
	for len(holders) < l.replicator.Replicas {
		to := transfer.Targets(rest, l.replicator.Self, l.replicator.Replicas-len(holders))
		if len(to) == 0 {
			break
		}
		got, err := l.replicator.Replicate(ctx, l.stamp.Generation, h, to)
		holders = append(holders, got...)
		if errs = append(errs, err); ctx.Err() != nil || errors.Is(err, chunkstore.ErrFenced) {
			break
		}
		rest = slices.DeleteFunc(rest, func(n membership.Node) bool { return has(to, n) })
	}
	return holders, errors.Join(errs...)
}

// commit sends the save until it is the head or, as it is, can never be:
// ErrFenced, *HolderGoneError, or what the store refused.
func (l *Pipeline) commit(ctx context.Context, head manifest.Head, holders []membership.Node) (manifest.Head, error) {
	g := head.Generation
	for {
		seen, _, err := l.replicator.Read(ctx)
		switch {
		case err == nil && seen.Generation == g && seen.Manifest == head.Manifest:
			return seen, nil
		case err == nil && seen.Generation == g && !l.made[seen.Manifest]:
			// Another node commits as this generation: ours must not undo it.
			return manifest.Head{}, fmt.Errorf("checkpoint %d is of generation %d too: %w", seen.Number, g,
				chunkstore.ErrFenced)
		case err == nil:
			var made manifest.Head
			if made, err = l.replicator.Record.Commit(ctx, head, seen, holders); err == nil {
				return made, nil
			}
		}
		var gone *checkpoint.HolderGoneError
		if errors.Is(err, chunkstore.ErrFenced) || errors.As(err, &gone) || store.Refused(err) {
			return manifest.Head{}, err
		}
		if err := pause(ctx, nil); err != nil {
			return manifest.Head{}, err
		}
	}
}
