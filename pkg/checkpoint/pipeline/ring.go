package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/store"
)

// errTooFewParts means that a part has too few copies for a commit in parts.
var errTooFewParts = errors.New("a part has too few copies")

// mostHolders is how many registrations a commit can compare, because a transaction is limited.
const mostHolders = store.MaxOps - 8

// copyPart copies a part of this node to the next nodes in the ring of members, and returns those
// that have it. If there are too few copies, rank 0's node collects all parts.
func (l *Pipeline) copyPart(ctx context.Context, h manifest.Hash) (holders []membership.Ref) {
	nodes, err := l.replicator.Record.Nodes(ctx)
	if err != nil {
		return nil
	}
	members := make([]membership.Node, 0, len(nodes))
	for _, m := range l.sharing.Members {
		members = append(members, slices.DeleteFunc(slices.Clone(nodes),
			func(n membership.Node) bool { return !n.Same(m) })...)
	}
	others := slices.DeleteFunc(nodes, func(n membership.Node) bool { return has(members, n) })
	to := transfer.Ring(members, others, l.replicator.Self, l.replicator.Replicas-1)
	c := transfer.Copier{Store: l.replicator.Store, Peers: l.replicator.Peers, Generation: l.stamp.Generation}
	got, _ := c.Replicate(ctx, h, to) // nodes that failed are not in got
	for _, n := range got {
		holders = append(holders, n.Ref)
	}
	return holders
}

// protectParts commits a save in parts. The copies of each part are held at the time of the commit.
// It fails with errTooFewParts if there are not enough of them.
func (l *Pipeline) protectParts(ctx context.Context, x *merged) (manifest.Head, error) {
	failed := map[string]bool{}
	for {
		nodes, _ := l.replicator.View()
		held, holders := x.holders(slices.DeleteFunc(slices.Clone(nodes),
			func(n membership.Node) bool { return failed[n.Node] }))
		if len(holders) > mostHolders || !has(holders, l.self(nodes)) || slices.ContainsFunc(held,
			func(p []membership.Node) bool { return !enough(nodes, p, l.replicator.Replicas) }) {
			return manifest.Head{}, errTooFewParts
		}
		refused, err := l.holdParts(ctx, x, held, holders)
		if err != nil {
			return manifest.Head{}, err
		}
		if len(refused) > 0 {
			for _, n := range refused {
				failed[n] = true
			}
			continue
		}
		head := headOf(x.Manifest, x.hash)
		for i, p := range held {
			part := manifest.HeldPart{Manifest: x.parts[i].Manifest}
			for _, n := range p {
				part.Holders = append(part.Holders, n.Node)
			}
			head.Parts = append(head.Parts, part)
		}
		l.made[x.hash] = true
		head, err = l.commit(ctx, head, holders)
		var gone *checkpoint.HolderGoneError
		if !errors.As(err, &gone) {
			return head, err
		}
		failed[gone.Node] = true
	}
}

// self returns the registration of this node.
func (l *Pipeline) self(nodes []membership.Node) membership.Node {
	at := slices.IndexFunc(nodes, func(n membership.Node) bool { return n.Node == l.replicator.Self })
	if at < 0 {
		return membership.Node{}
	}
	return nodes[at]
}

// holders returns the registered nodes with each part, and all of them.
func (x *merged) holders(nodes []membership.Node) (held [][]membership.Node, all []membership.Node) {
	for _, p := range x.parts {
		var of []membership.Node
		for _, n := range nodes {
			if n.Same(p.Node) || slices.ContainsFunc(p.Holders, n.Same) {
				of = append(of, n)
			}
		}
		held = append(held, of)
	}
	for _, n := range nodes {
		if slices.ContainsFunc(held, func(of []membership.Node) bool { return has(of, n) }) {
			all = append(all, n)
		}
	}
	return held, all
}

// holdParts lets each holder keep the manifest of the save and its parts. refused are the nodes
// that did not.
func (l *Pipeline) holdParts(
	ctx context.Context, x *merged, held [][]membership.Node, holders []membership.Node,
) (refused []string, err error) {
	errs := make([]error, len(holders))
	var asked sync.WaitGroup
	for i, n := range holders {
		p := chunkstore.Partial{Generation: l.stamp.Generation, Manifest: x.raw}
		for k, of := range held {
			if has(of, n) {
				p.Parts = append(p.Parts, x.parts[k].Manifest)
			}
		}
		asked.Go(func() {
			if n.Node == l.replicator.Self {
				errs[i] = l.replicator.Store.HoldParts(ctx, p)
			} else {
				errs[i] = l.replicator.Peers.HoldParts(ctx, n.Ref, p)
			}
		})
	}
	asked.Wait()
	for i, n := range holders {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(errs[i], chunkstore.ErrFenced):
			return nil, errs[i]
		case errs[i] != nil:
			refused = append(refused, n.Node)
		}
	}
	return refused, nil
}

// complete collects all parts of the newest commit on this disk, and on as many other nodes as need
// copies. The job may continue with fewer nodes.
func (l *Pipeline) complete(ctx context.Context) error {
	head, _, err := l.replicator.Read(ctx)
	if err != nil || head.Parts == nil {
		return ctx.Err()
	}
	err = l.replicator.Complete(ctx, l.stamp.Generation, head, l.replicator.Replicas-1)
	if err != nil && ctx.Err() == nil && !errors.Is(err, chunkstore.ErrFenced) {
		// The parts have their copies, and a node can fetch each part from its holders.
		l.refuse(capture.Refusal{Reason: capture.TooFewNodes, Step: head.Step,
			Err: fmt.Errorf("checkpoint %d stays in parts on several nodes: %w", head.Number, err)})
	}
	return ctx.Err()
}
