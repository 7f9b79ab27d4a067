package replicator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
)

// Scrub reads all committed checkpoints on this disk within that time, evenly, and then again. It
// fetches damaged chunks from other nodes, so that damage is found before the copy is needed. The
// order is random, so that an agent with many restarts reads all chunks too. It ends with ctx.
func (r *Replicator) Scrub(ctx context.Context, within time.Duration) {
	s := &scrubber{r: r, limit: min(scrubSlowest, within)}
	for s.wait(ctx, s.limit) {
		s.pass(ctx, within)
	}
}

const (
	scrubFastest = 250 * time.Millisecond // between two chunks: at most 16 MiB per second
	scrubSlowest = 10 * time.Minute
)

// scrubber reads the disk of one node.
type scrubber struct {
	r     *Replicator
	limit time.Duration // between two chunks, and between two attempts to repair
	bad   []kept        // not repaired yet
	tried time.Time     // when the last repair was tried
}

// kept is a manifest on this disk, of a committed checkpoint or of a part.
type kept struct {
	head     manifest.Head
	hash     manifest.Hash
	manifest *manifest.Manifest // nil: its file is damaged
}

// pass reads each chunk once.
func (s *scrubber) pass(ctx context.Context, within time.Duration) {
	all, err := s.kept(ctx)
	if err != nil {
		return // without the record nothing can be repaired
	}
	var order []manifest.Hash
	of := map[manifest.Hash][]kept{}
	for _, k := range all {
		switch {
		case k.manifest == nil:
			s.repair(ctx, k, "its manifest")
			continue
		case s.r.Store.Has(k.hash):
		case s.r.Store.HasParts(k.hash):
			continue // the parts are in the list
		default:
			s.repair(ctx, k, "chunks of it are gone")
			continue
		}
		for c := range k.manifest.DistinctChunks() {
			if of[c] == nil {
				order = append(order, c)
			}
			of[c] = append(of[c], k)
		}
	}
	slices.SortFunc(order, func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) })
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	pause := min(max(within/time.Duration(max(len(order), 1)), scrubFastest), s.limit)
	for _, c := range order {
		if !s.wait(ctx, pause) {
			return
		}
		// After an error other than damage, the next pass reads the chunk again.
		if good, err := s.r.Store.VerifyChunk(c); good || err != nil {
			continue
		}
		for _, k := range of[c] {
			s.repair(ctx, k, k.at(c))
		}
	}
}

// wait waits for d, and tries meanwhile to repair what is damaged. It returns false if ctx ended.
func (s *scrubber) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	if len(s.bad) > 0 && time.Since(s.tried) >= s.limit {
		for _, k := range slices.Clone(s.bad) {
			s.repair(ctx, k, "")
		}
	}
	return ctx.Err() == nil
}

// kept lists the manifests on this disk of the checkpoints in the record.
func (s *scrubber) kept(ctx context.Context) (all []kept, err error) {
	_, committed, err := s.r.Read(ctx)
	for _, h := range committed {
		hashes := []manifest.Hash{h.Manifest}
		for _, p := range h.Parts {
			hashes = append(hashes, p.Manifest)
		}
		for _, hash := range hashes {
			if !s.r.Store.HasManifest(hash) {
				continue
			}
			m, err := s.manifest(hash)
			if err == nil {
				all = append(all, kept{h, hash, m})
			}
		}
	}
	return all, err
}

// manifest reads a manifest. It returns nil if the file is damaged. After another error the next
// pass reads it again.
func (s *scrubber) manifest(h manifest.Hash) (*manifest.Manifest, error) {
	raw, err := s.r.Store.RawManifest(h)
	var m *manifest.Manifest
	if err == nil {
		m, err = manifest.Decode(raw)
	}
	for _, damaged := range []error{chunkstore.ErrDamaged, manifest.ErrBadManifest, fs.ErrNotExist} {
		if errors.Is(err, damaged) {
			return nil, nil
		}
	}
	return m, err
}

// at describes the bytes of the checkpoint that a chunk contains.
func (k kept) at(c manifest.Hash) string {
	for _, f := range k.manifest.Files {
		if i := slices.Index(f.Chunks, c); i >= 0 {
			return fmt.Sprintf("%s at byte %d", f.Path, int64(i)*manifest.ChunkSize)
		}
	}
	return "its manifest"
}

// repair fetches the damaged chunks of a checkpoint, unless the checkpoint was removed meanwhile.
func (s *scrubber) repair(ctx context.Context, k kept, where string) {
	known := slices.ContainsFunc(s.bad, k.same)
	s.bad = slices.DeleteFunc(s.bad, k.same)
	if !s.r.Store.HasManifest(k.hash) {
		return
	}
	err := s.r.refetch(ctx, k)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.bad, s.tried = append(s.bad, k), time.Now()
	}
	switch {
	case err == nil && known:
		s.r.Report(Damaged{Head: k.head})
	case !known:
		s.r.Report(Damaged{Head: k.head, Where: where, Err: err})
	}
}

func (k kept) same(o kept) bool { return k.hash == o.hash }

// refetch fetches the damaged chunks of a checkpoint or of a part from other nodes.
func (r *Replicator) refetch(ctx context.Context, k kept) error {
	g := max(k.head.Generation, r.Store.Generation())
	if k.hash == k.head.Manifest && !r.Store.HasParts(k.hash) {
		return r.fetch(ctx, fetchRequest{g, k.head.Number, k.hash, nil})
	}
	holders, err := r.partsOf(ctx, k.head)
	if err != nil {
		return err
	}
	var from []membership.Ref
	for _, p := range holders {
		if p.Part == k.hash || k.hash == k.head.Manifest {
			from = append(from, p.Nodes...)
		}
	}
	c := transfer.Copier{Store: r.Store, Peers: r.Peers, Generation: g}
	if k.hash != k.head.Manifest {
		return c.Fetch(ctx, k.hash, from)
	}
	raw, err := c.Manifest(ctx, k.hash, from)
	if err != nil {
		return err
	}
	return r.Store.HoldParts(ctx, chunkstore.Partial{Generation: g, Manifest: raw})
}
