package replicator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Resume is the checkpoint that a generation resumes from.
type Resume struct {
	Generation schema.Generation
	Number     manifest.Number
	Manifest   manifest.Hash
	Own        *parts.Reader // set if this node fetches only the parts that its ranks load; nil: all
}

// Prepare fetches the checkpoint from which a generation starts, verifies it, and restores its
// files in dir. It returns the path for the workers, and the manifest. Damaged chunks are fetched
// again. It fails with ErrNotHeld if no registered node has all of the checkpoint.
func (r *Replicator) Prepare(
	ctx context.Context, from Resume, dir capture.Dir,
) (string, *manifest.Manifest, error) {
	t, err := dir.Open()
	if err != nil {
		return "", nil, fmt.Errorf("prepare: %w", err)
	}
	defer t.Close()
	entry, m, err := r.prepareTree(ctx, from, t, dir)
	if err != nil {
		return "", nil, fmt.Errorf("prepare: %w", err)
	}
	return filepath.Join(dir.Path, filepath.FromSlash(entry)), m, nil
}

func (r *Replicator) prepareTree(
	ctx context.Context, from Resume, t dirfs.FS, dir capture.Dir,
) (string, *manifest.Manifest, error) {
	if err := r.Store.Raise(from.Generation); err != nil {
		return "", nil, err
	}
	r.mu.Lock()
	r.resume = []manifest.Hash{from.Manifest}
	r.mu.Unlock()
	for try := (attempt{from: from}); ; try.again = true {
		found, err := r.ensureHeld(ctx, try)
		if errors.Is(err, chunkstore.ErrDamaged) && !try.again {
			continue // the manifest is damaged here: fetch it again
		}
		if err != nil {
			return "", nil, err
		}
		m := found.files
		err = restore.Files(ctx, t, m, r.Store)
		if errors.Is(err, chunkstore.ErrDamaged) && !try.again {
			continue // the damage is recorded: fetch the damaged chunks
		}
		if err != nil {
			return "", nil, err
		}
		if err := r.Store.AddCommitted(found.head); err != nil {
			return "", nil, err
		}
		return m.Entry, m, capture.SetAside(r.Store, t, dir, m)
	}
}

// attempt is one try to fetch the checkpoint.
type attempt struct {
	from  Resume
	again bool // the first try found damaged bytes: fetch even what seems to be here
}

// resumed is the checkpoint on this disk.
type resumed struct {
	files *manifest.Manifest
	head  manifest.Head // the commit, which a claim of this node names
}

// ensureHeld ensures that the checkpoint is on this disk.
func (r *Replicator) ensureHeld(ctx context.Context, try attempt) (*resumed, error) {
	if try.from.Own != nil {
		if own, err := r.ensureOwn(ctx, try); own != nil || err != nil {
			return own, err
		}
	}
	n, h := try.from.Number, try.from.Manifest
	if !r.Store.Has(h) || try.again {
		before, err := r.Record.Store.Get(ctx, r.Record.Job.Head(), "")
		if err != nil {
			return nil, fmt.Errorf("read the store: %w", err)
		}
		if err := r.fetch(ctx, fetchRequest{try.from.Generation, n, h, r.fetching}); err != nil {
			return nil, askedError{err, before.Rev}
		}
	}
	m, err := r.Store.Manifest(h)
	if err != nil {
		return nil, err
	}
	head := manifest.HeadOf(m, h)
	head.Number, head.Copies, head.Holders = n, 1, []membership.Ref{{Node: r.Self}}
	return &resumed{m, head}, nil
}

// fetching reports the progress of a fetch.
func (r *Replicator) fetching(done, total int64) { r.Report(Moving{"fetch", done, total}) }

// holders returns the ways to find the nodes that have a checkpoint: first those that its record
// names, then those whose inventory has it.
func (r *Replicator) holders() []func(context.Context, manifest.Number) ([]membership.Ref, error) {
	return []func(context.Context, manifest.Number) ([]membership.Ref, error){r.Record.Holders,
		r.Record.InventoryHolders}
}

// Entry returns the path at which another node's Prepare restores the checkpoint in dir, if both
// nodes share that directory. It fetches and writes nothing.
func (r *Replicator) Entry(
	ctx context.Context, n manifest.Number, h manifest.Hash, dir string,
) (string, error) {
	m, err := r.manifestOf(ctx, n, h)
	if err != nil {
		return "", fmt.Errorf("find what to resume from: %w", err)
	}
	return filepath.Join(dir, filepath.FromSlash(m.Entry)), nil
}

// manifestOf asks the holders of a checkpoint for its manifest.
func (r *Replicator) manifestOf(
	ctx context.Context, n manifest.Number, h manifest.Hash,
) (*manifest.Manifest, error) {
	c := transfer.Copier{Store: r.Store, Peers: r.Peers}
	var last error
	for _, holders := range r.holders() {
		from, err := holders(ctx, n)
		if err != nil {
			return nil, err
		}
		raw, err := c.Manifest(ctx, h,
			slices.DeleteFunc(from, func(n membership.Ref) bool { return n.Node == r.Self }))
		if err == nil {
			return manifest.Decode(raw)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		last = err
	}
	return nil, last
}

// Complete fetches all parts of a checkpoint to this disk, and ensures that n other nodes hold all
// of it too. See Spread.
func (r *Replicator) Complete(ctx context.Context, g schema.Generation, head manifest.Head, n int) error {
	if !r.Store.Has(head.Manifest) {
		g := max(g, r.Store.Generation())
		saving := func(done, total int64) { r.Report(Moving{"replicate", done, total}) }
		if err := r.fetch(ctx, fetchRequest{g, head.Number, head.Manifest, saving}); err != nil {
			return err
		}
	}
	return r.Spread(ctx, g, head.Manifest, n)
}

// fetchRequest describes a checkpoint to fetch.
type fetchRequest struct {
	generation schema.Generation
	number     manifest.Number
	hash       manifest.Hash
	report     func(done, total int64)
}

// fetch first asks the holders in the record, then all nodes whose inventory has the checkpoint.
// Then it asks all nodes for each part, because a node that loaded its own parts has parts that are
// not in the record.
func (r *Replicator) fetch(ctx context.Context, x fetchRequest) error {
	parts, err := r.parts(ctx, x.number)
	if err != nil {
		return err
	}
	c := transfer.Copier{Store: r.Store, Peers: r.Peers, Generation: x.generation, Report: x.report}
	var last error
	for i, holders := range r.holders() {
		from, err := holders(ctx, x.number)
		if err != nil {
			return err
		}
		from = slices.DeleteFunc(from, func(n membership.Ref) bool { return n.Node == r.Self })
		if i == 0 && parts != nil {
			err = c.FetchParts(ctx, x.hash, transfer.Holders{All: from, Parts: parts})
		} else {
			err = c.Fetch(ctx, x.hash, from) // these nodes have the whole checkpoint
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, chunkstore.ErrNotHeld) {
			return err
		}
		last = err // the second error is about nodes whose inventory has the checkpoint
	}
	if parts == nil {
		return last
	}
	found, silent, err := r.search(ctx, parts)
	if err != nil {
		return err
	}
	if err := c.FetchParts(ctx, x.hash, found); err != nil {
		return errors.Join(err, silent)
	}
	return nil
}

// askedError is the error of a fetch, with the revision at which the nodes were read.
type askedError struct {
	error
	rev int64 // the nodes were read at this revision of the store, or later
}

func (e askedError) Unwrap() error { return e.error }

// AskedAt returns a store revision from before Prepare read the list of nodes; 0: err has none. A
// node that registered later may have what the others lack.
func AskedAt(err error) int64 {
	var e askedError
	errors.As(err, &e)
	return e.rev
}

// CannotBeHad reports whether err, of Prepare or Entry, means that no registered node has all of a
// checkpoint. It is false if a node did not answer, because that node may have it.
func CannotBeHad(err error) bool {
	return !unanswered(err) && (errors.Is(err, chunkstore.ErrNotHeld) || errors.Is(err, chunkstore.ErrDamaged))
}

// unanswered reports whether a node did not answer.
func unanswered(err error) bool {
	return errors.Is(err, transfer.ErrNoAnswer) || errors.Is(err, transfer.ErrStranger)
}

// search asks the registered nodes for each part, its holders first, until one has it. silent has
// the errors of nodes that did not answer.
func (r *Replicator) search(
	ctx context.Context, parts []transfer.PartHolders,
) (found transfer.Holders, silent, err error) {
	nodes, err := r.Record.Nodes(ctx)
	if err != nil {
		return found, nil, err
	}
	for _, p := range parts {
		asked := slices.Clone(p.Nodes)
		for _, n := range nodes {
			if n.Node != r.Self && !slices.Contains(asked, n.Ref) {
				asked = append(asked, n.Ref)
			}
		}
		for _, n := range asked {
			raw, err := r.Peers.Manifest(ctx, n, p.Part)
			if ctx.Err() != nil {
				return found, nil, ctx.Err()
			}
			if unanswered(err) {
				silent = errors.Join(silent, err)
			}
			if err == nil && manifest.Sum(raw) == p.Part {
				found.All = append(found.All, n)
				found.Parts = append(found.Parts,
					transfer.PartHolders{Part: p.Part, Nodes: []membership.Ref{n}})
				break
			}
		}
	}
	return found, silent, nil
}

// parts returns the other registered nodes with each part of a checkpoint; nil: it has no parts.
func (r *Replicator) parts(ctx context.Context, n manifest.Number) ([]transfer.PartHolders, error) {
	h, err := r.Record.Of(ctx, n)
	if err != nil || h.Parts == nil {
		return nil, err
	}
	return r.partsOf(ctx, h)
}

// partsOf is parts for a record that was already read.
func (r *Replicator) partsOf(ctx context.Context, h manifest.Head) (parts []transfer.PartHolders, err error) {
	nodes, err := r.Record.Nodes(ctx)
	for _, p := range h.Parts {
		of := transfer.PartHolders{Part: p.Manifest}
		for _, x := range nodes {
			if x.Node != r.Self && slices.Contains(p.Holders, x.Node) {
				of.Nodes = append(of.Nodes, x.Ref)
			}
		}
		parts = append(parts, of)
	}
	return parts, err
}
