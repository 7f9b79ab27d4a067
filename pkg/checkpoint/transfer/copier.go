// Package transfer moves checkpoints between the disks of a job's nodes. The receiver verifies the
// hash of all bytes.
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

// streams is how many chunks of one checkpoint are transferred at the same time.
const streams = 4

// Copier moves checkpoints between this node's store and those of other nodes.
type Copier struct {
	Store      *chunkstore.Store
	Peers      Peers
	Generation schema.Generation       // the generation of this node; not needed to read
	Report     func(done, total int64) // bytes moved by Replicate and Fetch; nil: not reported
}

// Replicate copies a checkpoint that is held here to the nodes of to. It returns those that
// acknowledged: their copy is verified and durable. The error says why others did not; with
// ErrFenced another try is useless. Chunks of an interrupted transfer stay there, and are not sent
// again.
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
	errs := make([]error, len(to))
	var wg sync.WaitGroup
	for i, n := range to {
		wg.Go(func() { errs[i] = c.send(ctx, n.Ref, s) })
	}
	wg.Wait()
	var holders []membership.Node
	for i, n := range to {
		if errs[i] == nil {
			holders = append(holders, n)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return holders, fmt.Errorf("replicate: %w", err)
	}
	return holders, nil
}

// sending is a checkpoint that is being sent.
type sending struct {
	raw      []byte                  // the manifest
	sizes    map[manifest.Hash]int64 // the chunks
	progress *progress
}

// send offers the manifest and sends the missing chunks, until the other node holds the checkpoint.
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

// sendChunk sends one chunk. A node that was started again does not expect the chunk: that is no error,
// because send offers once more.
func (c *Copier) sendChunk(ctx context.Context, to membership.Ref, chunk manifest.Hash, s *sending) error {
	size := s.sizes[chunk]
	open := func() (io.ReadSeekCloser, error) { return c.open(chunk) }
	err := c.Peers.WriteChunk(ctx, to, chunkstore.Upload{Generation: c.Generation, Hash: chunk,
		Size: size, Open: open})
	switch {
	case err == nil:
		s.progress.add(to.Node, size)
	case errors.Is(err, chunkstore.ErrNotHeld):
		return nil
	case errors.Is(err, chunkstore.ErrDamaged):
		// A chunk that is damaged here is recorded, so that the next Put or Fetch replaces it.
		_, own := c.Store.VerifyChunk(chunk)
		err = errors.Join(err, own)
	}
	return err
}

// open opens a chunk, which must be on this disk.
func (c *Copier) open(chunk manifest.Hash) (io.ReadSeekCloser, error) {
	f, err := c.Store.OpenChunk(chunk)
	if errors.Is(err, chunkstore.ErrNotHeld) {
		err = fmt.Errorf("chunk %v on this disk: %w", chunk, chunkstore.ErrDamaged)
	}
	return f, err
}

// Fetch copies a checkpoint to this disk. It reads each chunk from any node of from. If a node does
// not answer or sends wrong bytes, it tries the next. Chunks of an interrupted Fetch stay. It fails
// with ErrNotHeld if no node has all of the checkpoint.
func (c *Copier) Fetch(ctx context.Context, h manifest.Hash, from []membership.Ref) error {
	raw, err := c.Manifest(ctx, h, from)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	return c.Assemble(ctx, raw, func(manifest.Hash) []membership.Ref { return from })
}

// Holders are the nodes that have a checkpoint or parts of it.
type Holders struct {
	All   []membership.Ref // nodes with the manifest, and parts of the checkpoint
	Parts []PartHolders    // nil: all nodes have all of it
}

// PartHolders are the nodes that have a part of a checkpoint.
type PartHolders struct {
	Part  manifest.Hash
	Nodes []membership.Ref
}

// FetchParts is Fetch for a checkpoint whose parts are on several nodes.
func (c *Copier) FetchParts(ctx context.Context, h manifest.Hash, from Holders) error {
	raw, err := c.Manifest(ctx, h, from.All)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	owners := map[manifest.Hash][]membership.Ref{}
	for _, p := range from.Parts {
		of, err := c.Manifest(ctx, p.Part, p.Nodes)
		if err != nil {
			continue // the node may have all of the checkpoint now
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

// Assemble is Fetch for a known manifest whose chunks are on several nodes. from returns the nodes
// that have a chunk.
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
			if err := c.fetchChunk(egctx, chunk, data, startingAt(from(chunk), int(turn.Add(1)))); err != nil {
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

// Manifest reads a manifest from this disk, else from the first node that has it.
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

// startingAt returns the nodes starting with node number turn, in the same order.
func startingAt(nodes []membership.Ref, turn int) []membership.Ref {
	if len(nodes) == 0 {
		return nil
	}
	first := turn % len(nodes)
	return slices.Concat(nodes[first:], nodes[:first])
}

// fetchChunk tries one node after the other. The store verifies what it has written.
func (c *Copier) fetchChunk(
	ctx context.Context, h manifest.Hash, data []byte, from []membership.Ref,
) error {
	errs := []error{fmt.Errorf("chunk %v: %w", h, chunkstore.ErrNotHeld)}
	for _, n := range from {
		err := c.Peers.Chunk(ctx, n, h, data)
		if err == nil {
			err = c.Store.WriteChunk(c.Generation, h, bytes.NewReader(data))
			if err == nil || !errors.Is(err, chunkstore.ErrDamaged) {
				return err // this disk is full or broken: another node does not help
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, fmt.Errorf("node %s: %w", n.Node, err))
	}
	return errors.Join(errs...)
}
