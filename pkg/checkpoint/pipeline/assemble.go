package pipeline

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
)

// missingShardError names a shard that a save does not have, although every node has reported its
// part.
type missingShardError struct{ error }

// mixedPartsError says how the parts of a save contradict each other.
type mixedPartsError struct{ error }

// merged is a save whose parts are all known.
type merged struct {
	*manifest.Manifest
	raw   []byte
	hash  manifest.Hash
	parts []parts.Owned
	// owners are the nodes that have a chunk, according to their reports.
	owners map[manifest.Hash][]membership.Ref
}

// merge makes the manifest of a save from those of its parts. It fails if a shard is missing.
func (l *Pipeline) merge(ctx context.Context, set []parts.Owned) (*merged, error) {
	c := transfer.Copier{Store: l.replicator.Store, Peers: l.replicator.Peers}
	x := &merged{parts: set, owners: map[manifest.Hash][]membership.Ref{}}
	var all []*manifest.Manifest
	var nodes []string
	var hashes []manifest.Hash
	for _, p := range set {
		having := append([]membership.Ref{p.Node}, p.Holders...)
		raw, err := c.Manifest(ctx, p.Manifest, having)
		if err != nil {
			return nil, fmt.Errorf("the part of node %s cannot be read: %w", p.Node.Node, err)
		}
		m, err := manifest.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("the part of node %s: %w", p.Node.Node, err)
		}
		all, nodes, hashes = append(all, m), append(nodes, p.Node.Node), append(hashes, p.Manifest)
		for h := range m.DistinctChunks() {
			x.owners[h] = append(x.owners[h], having...)
		}
	}
	m, err := parts.Merge(all, nodes)
	if err != nil {
		return nil, &mixedPartsError{err}
	}
	m.Parts = hashes
	named, err := l.named(ctx, m, x.owners)
	if err != nil {
		return nil, err
	}
	if err := parts.Missing(m.Paths(), named); err != nil {
		return nil, &missingShardError{err}
	}
	x.Manifest = m
	x.raw, x.hash = m.Encode()
	return x, nil
}

// assemble fetches all chunks of a save to this disk from the nodes that have them.
func (l *Pipeline) assemble(ctx context.Context, x *merged) error {
	c := transfer.Copier{Store: l.replicator.Store, Peers: l.replicator.Peers, Generation: l.stamp.Generation,
		Report: func(done, total int64) {
			l.replicator.Report(replicator.Moving{What: "replicate", Done: done, Total: total})
		}}
	from := func(chunk manifest.Hash) []membership.Ref { return x.owners[chunk] }
	if err := c.Assemble(ctx, x.raw, from); err != nil {
		return fmt.Errorf("bring the parts together: %w", err)
	}
	return nil
}

// named returns the shards that each .metadata file of a save names, by the path of the file.
func (l *Pipeline) named(
	ctx context.Context, m *manifest.Manifest, owners map[manifest.Hash][]membership.Ref,
) (map[string][]string, error) {
	named := map[string][]string{}
	for _, f := range m.Files {
		if path.Base(f.Path) != parts.Metadata {
			continue
		}
		var scan shardScan
		err := f.Copy(ctx, &scan,
			func(h manifest.Hash, dst []byte) error { return l.chunk(ctx, h, dst, owners[h]) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Path, err)
		}
		named[f.Path] = scan.names()
	}
	return named, nil
}

// chunk reads a chunk from this disk, else from the nodes that have it.
func (l *Pipeline) chunk(ctx context.Context, h manifest.Hash, dst []byte, owners []membership.Ref) error {
	f, err := l.replicator.Store.OpenChunk(h)
	if err == nil {
		_, err = io.ReadFull(f, dst)
		_ = f.Close() // it was only read
	}
	for _, n := range owners {
		if err == nil && manifest.Sum(dst) == h {
			return nil
		}
		err = l.replicator.Peers.Chunk(ctx, n, h, dst)
	}
	if err == nil && manifest.Sum(dst) != h {
		err = fmt.Errorf("chunk %v: %w", h, chunkstore.ErrDamaged)
	}
	return err
}

// shardScan finds names of shards in the bytes written to it.
type shardScan struct {
	tail  []byte // the last bytes, in case a name continues in the next write
	found []string
}

// longestShard is longer than the name of any shard.
const longestShard = 64

func (s *shardScan) Write(b []byte) (int, error) {
	s.tail = append(s.tail, b...)
	s.found = append(s.found, parts.Shards(s.tail)...)
	s.tail = slices.Clone(s.tail[max(0, len(s.tail)-longestShard):])
	return len(b), nil
}

// names returns the shards without duplicates.
func (s *shardScan) names() []string {
	slices.Sort(s.found)
	return slices.Compact(s.found)
}
