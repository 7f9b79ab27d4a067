// Package transfer moves checkpoints between the disks of the nodes of a job.
// Bytes count only after their hash was checked where they arrived.
package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// streams is how many chunks are under way to or from other nodes at once, for each checkpoint.
const streams = 4

// Copier moves checkpoints between this node's store and those of others.
type Copier struct {
	Store      *chunkstore.Store
	Peers      Peers
	Generation schema.Generation       // in which this node acts; reading needs none
	Report     func(done, total int64) // of the bytes that Replicate and Fetch move; nil: not reported
}

// Replicate puts copies of a checkpoint that is held here onto the nodes of
// to, and returns those that acknowledged: theirs is verified and durable. The
// error says why others did not; ErrFenced in it is final. What a broken
// transfer brought stays there, and is not sent again.
func (c *Copier) Replicate(
	ctx context.Context, h manifest.Hash, to []membership.Node,
) ([]membership.Node, error) {
	m, err := c.Store.Manifest(h)
	if err != nil {
		return nil, err
	}
	raw, err := c.Store.RawManifest(h)
	if err != nil {
		return nil, err
	}
	s := &sending{raw: raw, progress: newProgress(m, len(to), c.Report), sizes: map[manifest.Hash]int64{}}
	for h, size := range m.DistinctChunks() {
		s.sizes[h] = size
	}
	acked, errs := make([]bool, len(to)), make([]error, len(to))
	var wg sync.WaitGroup
	for i, n := range to {
		wg.Go(func() {
			errs[i] = c.send(ctx, n.Ref, s)
			acked[i] = errs[i] == nil
		})
	}
	wg.Wait()
	var holders []membership.Node
	for i, n := range to {
		if acked[i] {
			holders = append(holders, n)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return holders, fmt.Errorf("replicate: %w", err)
	}
	return holders, nil
}

// sending is a checkpoint on its way to other nodes.
type sending struct {
	raw      []byte                  // its manifest
	sizes    map[manifest.Hash]int64 // of its chunks
	progress *progress
}

// send offers the manifest, sends what is missing, and offers again, until the other side holds it.
func (c *Copier) send(ctx context.Context, to membership.Ref, s *sending) error {
	p := s.progress
	last := len(s.sizes) + 1
	for {
		missing, err := c.Peers.Offer(ctx, to, c.Generation, s.raw)
		if err != nil {
			return err
		}
		if missing == nil {
			p.reach(to.Node, p.each)
			return nil
		}
		if len(missing) >= last {
			return fmt.Errorf("node %s does not keep what it is sent", to.Node)
		}
		last = len(missing)
		var left int64
		for _, c := range missing {
			left += s.sizes[c]
		}
		p.reach(to.Node, p.each-left)
		eg, ctx := errgroup.WithContext(ctx)
		eg.SetLimit(streams)
		for _, chunk := range missing {
			if _, ok := s.sizes[chunk]; !ok {
				return errors.Join(fmt.Errorf("node %s asks for a chunk that was not offered", to.Node), eg.Wait())
			}
			eg.Go(func() error {
				return c.sendChunk(ctx, to, chunk, s)
			})
		}
		if err := eg.Wait(); err != nil {
			return err
		}
	}
}

func (c *Copier) sendChunk(ctx context.Context, to membership.Ref, chunk manifest.Hash, s *sending) error {
	size := s.sizes[chunk]
	open := func() (io.ReadSeekCloser, error) { return c.open(chunk) }
	err := c.Peers.WriteChunk(ctx, to, chunkstore.Upload{Generation: c.Generation, Hash: chunk,
		Size: size, Open: open})
	switch {
	case err == nil:
		s.progress.add(to.Node, size)
	case errors.Is(err, chunkstore.ErrNotHeld):
		return nil // it was started again meanwhile: the next offer asks anew
	case errors.Is(err, chunkstore.ErrDamaged):
		// What went bad here is noted, so that the next Put or Fetch mends it.
		_, own := c.Store.VerifyChunk(chunk)
		err = errors.Join(err, own)
	}
	return err
}

// open opens a chunk that must be on this disk.
func (c *Copier) open(chunk manifest.Hash) (io.ReadSeekCloser, error) {
	f, err := c.Store.OpenChunk(chunk)
	if errors.Is(err, chunkstore.ErrNotHeld) {
		err = fmt.Errorf("chunk %v on this disk: %w", chunk, chunkstore.ErrDamaged)
	}
	return f, err
}

// Fetch brings a checkpoint onto this disk, each chunk from any of the nodes
// that has it: a node that is away, or that sends bytes of another hash, is passed over for the
// next. Chunks of a broken Fetch stay. ErrNotHeld when no node has all of it.
func (c *Copier) Fetch(ctx context.Context, h manifest.Hash, from []membership.Ref) error {
	raw, err := c.Manifest(ctx, h, from)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	return c.Assemble(ctx, raw, func(manifest.Hash) []membership.Ref { return from })
}

// Holders are the nodes that have something of a checkpoint.
type Holders struct {
	All   []membership.Ref // its manifest, and parts of it
	Parts []PartHolders    // nil: each has all of it
}

// PartHolders are the nodes that have a part of a checkpoint.
type PartHolders struct {
	Part  manifest.Hash
	Nodes []membership.Ref
}

// FetchParts is Fetch of a checkpoint of which each node has parts.
func (c *Copier) FetchParts(ctx context.Context, h manifest.Hash, from Holders) error {
	raw, err := c.Manifest(ctx, h, from.All)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	owners := map[manifest.Hash][]membership.Ref{}
	for _, p := range from.Parts {
		of, err := c.Manifest(ctx, p.Part, p.Nodes)
		if err != nil {
			continue // a node may have all of the checkpoint by now
		}
		m, err := manifest.Decode(of)
		if err != nil {
			continue
		}
		for chunk := range m.DistinctChunks() {
			owners[chunk] = append(owners[chunk], p.Nodes...)
		}
	}
	return c.Assemble(ctx, raw, func(chunk manifest.Hash) []membership.Ref {
		if refs := owners[chunk]; refs != nil {
			return refs
		}
		return from.All
	})
}

// Assemble is Fetch for a manifest that is known, of chunks that are on different nodes: from says
// which have one.
func (c *Copier) Assemble(
	ctx context.Context, raw []byte, from func(chunk manifest.Hash) []membership.Ref,
) error {
	missing, err := c.Store.Offer(ctx, c.Generation, raw)
	if err != nil || missing == nil {
		return err
	}
	m, err := manifest.Decode(raw)
	if err != nil {
		return err
	}
	p := newProgress(m, 1, c.Report)
	want := map[manifest.Hash]int64{}
	for h, size := range m.DistinctChunks() {
		want[h] = size
	}
	eg, egctx := errgroup.WithContext(ctx)
	eg.SetLimit(streams)
	var turn atomic.Uint64
	left, largest := p.each, int64(0)
	for _, chunk := range missing {
		left, largest = left-want[chunk], max(largest, want[chunk])
	}
	buffers := sync.Pool{New: func() any { return new(make([]byte, largest)) }}
	p.reach("", left)
	for _, chunk := range missing {
		eg.Go(func() error {
			buf := buffers.Get().(*[]byte)
			defer buffers.Put(buf)
			data := (*buf)[:want[chunk]]
			if err := c.fetchChunk(egctx, chunk, data, rotated(from(chunk), int(turn.Add(1)))); err != nil {
				return err
			}
			p.add("", int64(len(data)))
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	missing, err = c.Store.Offer(ctx, c.Generation, raw)
	if err == nil && missing != nil {
		err = fmt.Errorf("fetch: %d chunks went bad on this disk: %w", len(missing), chunkstore.ErrDamaged)
	}
	return err
}

// Manifest reads a manifest from this disk, or from the first node that has it.
func (c *Copier) Manifest(ctx context.Context, h manifest.Hash, from []membership.Ref) ([]byte, error) {
	if c.Store.HasManifest(h) {
		if raw, err := c.Store.RawManifest(h); err == nil {
			return raw, nil
		}
	}
	errs := []error{fmt.Errorf("manifest %v: %w", h, chunkstore.ErrNotHeld)}
	for _, n := range from {
		raw, err := c.Peers.Manifest(ctx, n, h)
		if err == nil && manifest.Sum(raw) == h {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// rotated returns the nodes in the same order, beginning with another one at each turn.
func rotated(nodes []membership.Ref, turn int) []membership.Ref {
	if len(nodes) == 0 {
		return nil
	}
	first := turn % len(nodes)
	return slices.Concat(nodes[first:], nodes[:first])
}

// fetchChunk asks one node after the other. The store trusts no node: it reads back what it wrote.
func (c *Copier) fetchChunk(
	ctx context.Context, h manifest.Hash, data []byte, from []membership.Ref,
) error {
	errs := []error{fmt.Errorf("chunk %v: %w", h, chunkstore.ErrNotHeld)}
	for _, n := range from {
		err := c.Peers.Chunk(ctx, n, h, data)
		if err == nil {
			err = c.Store.WriteChunk(c.Generation, h, bytes.NewReader(data))
			if err == nil || !errors.Is(err, chunkstore.ErrDamaged) {
				return err // a full or broken disk is not the other side's fault
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, fmt.Errorf("node %s: %w", n.Node, err))
	}
	return errors.Join(errs...)
}
