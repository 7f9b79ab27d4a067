package checkpointtest

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Peers implements transfer.Peers without a network between the stores.
type Peers struct {
	// To returns the store of a node, or the error of a node that does not answer. If To is nil,
	// the fields below are used.
	To func(ctx context.Context, op string, node membership.Ref) (*chunkstore.Store, error)

	mu     sync.Mutex
	Stores map[string]*chunkstore.Store
	Hook   func(op, node string) error
	Frozen string // a node that accepts requests and does not answer
}

func (d *Peers) to(ctx context.Context, op string, ref membership.Ref) (*chunkstore.Store, error) {
	if d.To != nil {
		return d.To(ctx, op, ref)
	}
	node := ref.Node
	d.mu.Lock()
	defer d.mu.Unlock()
	if node == d.Frozen {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return nil, ctx.Err()
	}
	if d.Hook != nil {
		if err := d.Hook(op, node); err != nil {
			return nil, err
		}
	}
	s := d.Stores[node]
	if s == nil {
		return nil, fmt.Errorf("node %s: no route", node)
	}
	return s, nil
}

func (d *Peers) Manifest(ctx context.Context, from membership.Ref, h manifest.Hash) ([]byte, error) {
	s, err := d.to(ctx, "manifest", from)
	if err != nil {
		return nil, err
	}
	if !s.HasManifest(h) {
		return nil, chunkstore.ErrNotHeld
	}
	return s.RawManifest(h)
}

func (d *Peers) Chunk(ctx context.Context, from membership.Ref, h manifest.Hash, dst []byte) error {
	s, err := d.to(ctx, "chunk", from)
	if err != nil {
		return err
	}
	f, err := s.OpenChunk(h)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, dst)
	return err
}

func (d *Peers) Offer(
	ctx context.Context, to membership.Ref, g schema.Generation, raw []byte,
) ([]manifest.Hash, error) {
	s, err := d.to(ctx, "offer", to)
	if err != nil {
		return nil, err
	}
	return s.Offer(ctx, g, raw)
}

func (d *Peers) WriteChunk(ctx context.Context, to membership.Ref, c chunkstore.Upload) error {
	s, err := d.to(ctx, "write", to)
	if err != nil {
		return err
	}
	return Deliver(s, c)
}

func (d *Peers) HoldParts(ctx context.Context, to membership.Ref, p chunkstore.Partial) error {
	s, err := d.to(ctx, "hold", to)
	if err != nil {
		return err
	}
	return s.HoldParts(ctx, p)
}

// Deliver writes an uploaded chunk into a store.
func Deliver(s *chunkstore.Store, c chunkstore.Upload) error {
	f, err := c.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Draft > 0 {
		return s.WriteDraft(manifest.Position{Generation: c.Generation, Sequence: c.Draft}, c.Hash, c.Size, f)
	}
	return s.WriteChunk(c.Generation, c.Hash, f)
}
