package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
)

// ownParts are the parts of a checkpoint that the ranks of this node load.
type ownParts struct {
	head    manifest.Head
	raw     []byte // the manifest of the checkpoint
	files   *manifest.Manifest
	parts   []ownPart
	again   bool // see attempt
	copier  transfer.Copier
	fetched int64 // of the parts that are already here
	total   int64
}

// ownPart is one of ownParts.
type ownPart struct {
	raw   []byte
	hash  manifest.Hash
	bytes int64
	nodes []membership.Ref // other nodes that have it
}

// ensureOwn fetches the parts that the ranks of this node load. It returns nil if the node must
// fetch all of the checkpoint: it needs all, which is reported, or the parts are not available.
func (r *Replicator) ensureOwn(ctx context.Context, try attempt) (*resumed, error) {
	x, err := r.findOwn(ctx, try.from)
	if err == nil {
		x.again = try.again
		err = r.fetchOwn(ctx, x)
	}
	var all needsAllError
	switch {
	case err == nil:
		return &resumed{x.files, x.head}, nil
	case errors.As(err, &all):
		r.Report(LoadsAll{all.Error()})
		return nil, nil
	case errors.Is(err, chunkstore.ErrNotHeld) && ctx.Err() == nil: // a node may have the whole checkpoint
		r.Report(LoadsAll{"no node that had a part of it at the commit answers for that part"})
		return nil, nil
	}
	return nil, err
}

// needsAllError is the reason why a node needs all of a checkpoint.
type needsAllError struct{ error }

// findOwn reads the manifests of a checkpoint and its parts, and chooses the parts that are needed.
// Errors: needsAllError, ErrNotHeld.
func (r *Replicator) findOwn(ctx context.Context, from Resume) (*ownParts, error) {
	x := &ownParts{copier: transfer.Copier{Store: r.Store, Peers: r.Peers, Generation: from.Generation}}
	var err error
	if x.head, err = r.Record.Of(ctx, from.Number); err != nil {
		return nil, err
	}
	if x.head.Parts == nil || x.head.Manifest != from.Manifest {
		return nil, needsAllError{errors.New("it was not committed in parts")}
	}
	holders, err := r.partsOf(ctx, x.head)
	if err != nil {
		return nil, err
	}
	var everyone []membership.Ref
	nodes := map[manifest.Hash][]membership.Ref{}
	for _, p := range holders {
		everyone = append(everyone, p.Nodes...)
		nodes[p.Part] = p.Nodes
	}
	if x.raw, err = x.copier.Manifest(ctx, from.Manifest, everyone); err != nil {
		return nil, err
	}
	whole, err := manifest.Decode(x.raw)
	if err != nil {
		return nil, err
	}
	var all []*manifest.Manifest
	var found []ownPart
	for _, h := range whole.Parts {
		p := ownPart{hash: h, nodes: nodes[h]}
		if p.raw, err = x.copier.Manifest(ctx, h, p.nodes); err != nil {
			return nil, err
		}
		m, err := manifest.Decode(p.raw)
		if err != nil {
			return nil, err
		}
		for _, size := range m.DistinctChunks() {
			p.bytes += size
		}
		all, found = append(all, m), append(found, p)
	}
	need, err := parts.Own(whole, all, *from.Own)
	if err != nil {
		return nil, needsAllError{err}
	}
	x.files = need.Files
	for _, i := range need.Parts {
		x.parts = append(x.parts, found[i])
		x.total += found[i].bytes
	}
	return x, nil
}

// fetchOwn fetches the parts to this disk. It first stores the manifest of the checkpoint, which
// protects the parts from removal.
func (r *Replicator) fetchOwn(ctx context.Context, x *ownParts) error {
	err := r.Store.HoldParts(ctx, chunkstore.Partial{Generation: x.copier.Generation, Manifest: x.raw})
	if err != nil {
		return err
	}
	for _, p := range x.parts {
		if !r.Store.Has(p.hash) || x.again {
			x.copier.Report = func(done, _ int64) { r.fetching(x.fetched+done, x.total) }
			err := x.copier.Assemble(ctx, p.raw, func(manifest.Hash) []membership.Ref { return p.nodes })
			if err != nil {
				return fmt.Errorf("part %v: %w", p.hash, err)
			}
		}
		x.fetched += p.bytes
	}
	return nil
}
