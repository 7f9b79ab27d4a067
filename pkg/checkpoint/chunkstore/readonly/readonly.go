// Package readonly reads the directory of a chunk store that is not open here: its owner may change it
// meanwhile. Store changes nothing. BringIn and KeepBrought prepare a copy of the store of an earlier job.
package readonly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Store is the directory of a chunk store.
type Store struct {
	disk *dirfs.Disk

	mu   sync.Mutex
	read map[manifest.Hash]bool // chunks that Verify has read; true: the hash is right
}

// New returns the Store in an open directory. Close closes it.
func New(t dirfs.FS) *Store {
	return &Store{disk: dirfs.NewDisk(t, Temp+"/readonly-"), read: map[manifest.Hash]bool{}}
}

// Close closes the directory.
func (s *Store) Close() error { return s.disk.FS.Close() }

// Held lists the manifests in the directory, complete or not.
func (s *Store) Held() (all []manifest.Hash, err error) { return s.list(Manifests) }

// Manifest reads the bytes of a manifest, also if only parts of the checkpoint are here. Errors:
// ErrNotHeld, ErrDamaged.
func (s *Store) Manifest(_ context.Context, h manifest.Hash) ([]byte, error) {
	raw, err := ReadManifest(s.disk, h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("manifest %v: %w", h, ErrNotHeld)
	}
	return raw, err
}

// Chunk reads a chunk into dst, which has its size. Errors: ErrNotHeld; ErrDamaged if the hash
// differs.
func (s *Store) Chunk(_ context.Context, h manifest.Hash, dst []byte) error {
	f, err := s.disk.FS.Open(ChunkPath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("chunk %v: %w", h, ErrNotHeld)
	}
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, dst)
	}
	if Lost(err) || err == nil && manifest.Sum(dst) != h {
		return fmt.Errorf("chunk %v: %w", h, ErrDamaged)
	}
	return err
}

// readers is how many chunks are read at the same time.
const readers = 4

// Damage is a missing or damaged piece of a checkpoint.
type Damage struct {
	Path   string // of the file; "" is the manifest, and so the whole checkpoint
	Offset int64
	Chunk  manifest.Hash // zero for the manifest
}

// Verify reads every byte of a checkpoint. It reads a chunk once, even if several checkpoints have
// it. It fails with ErrNotHeld if the owner removed the checkpoint meanwhile.
func (s *Store) Verify(ctx context.Context, h manifest.Hash) (*manifest.Manifest, []Damage, error) {
	raw, err := s.Manifest(ctx, h)
	var m *manifest.Manifest
	if err == nil {
		m, err = manifest.Decode(raw)
	}
	switch {
	case errors.Is(err, ErrDamaged) || errors.Is(err, manifest.ErrBadManifest):
		return nil, []Damage{{}}, nil
	case err != nil:
		return nil, nil, err
	}
	if err := s.readChunks(ctx, m); err != nil {
		return m, nil, err
	}
	var bad []Damage
	for _, f := range m.Files {
		for i, c := range f.Chunks {
			if !s.read[c] {
				bad = append(bad, Damage{f.Path, int64(i) * manifest.ChunkSize, c})
			}
		}
	}
	if bad != nil { // a manifest is removed before its chunks
		_, err := s.disk.FS.Lstat(path.Join(Manifests, h.String()))
		if errors.Is(err, fs.ErrNotExist) {
			return m, nil, fmt.Errorf("manifest %v: %w", h, ErrNotHeld)
		}
	}
	return m, bad, nil
}

// readChunks reads the chunks of m that were not read yet, and records whether each is right.
func (s *Store) readChunks(ctx context.Context, m *manifest.Manifest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for c := range m.DistinctChunks() {
		s.mu.Lock()
		_, known := s.read[c]
		s.mu.Unlock()
		if known {
			continue
		}
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			got, err := s.disk.Sum(ChunkPath(c))
			if err != nil && !Lost(err) {
				return fmt.Errorf("verify chunk %v: %w", c, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.read[c] = err == nil && got == c
			return nil
		})
	}
	return g.Wait()
}

// Heads returns the commit records that the owner of the store has written, oldest first.
func (s *Store) Heads() (heads []manifest.Head, err error) {
	if heads, err = ReadHeads(s.disk); err != nil {
		return nil, err
	}
	slices.SortFunc(heads, manifest.Head.Compare)
	return heads, nil
}

// ReadManifest returns nil if the manifest is missing, damaged, or of a newer format.
func (s *Store) ReadManifest(ctx context.Context, h manifest.Hash) (*manifest.Manifest, error) {
	raw, err := s.Manifest(ctx, h)
	if err == nil {
		var m *manifest.Manifest
		if m, err = manifest.Decode(raw); err == nil {
			return m, nil
		}
	}
	if errors.Is(err, ErrNotHeld) || errors.Is(err, ErrDamaged) ||
		errors.Is(err, manifest.ErrBadManifest) ||
		errors.Is(err, schema.ErrNewerFormat) {
		return nil, nil
	}
	return nil, err
}

// Newest returns the newest commit that has a record and all or parts of its files on this disk. It
// returns the zero Head if there is none, or if the disk brings a checkpoint of an earlier job.
func (s *Store) Newest() (manifest.Head, error) {
	brought, err := s.disk.ReadFile(Brought, manifest.MaxSize)
	if brought != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return manifest.Head{}, err
	}
	heads, err := s.Heads()
	if err != nil {
		return manifest.Head{}, err
	}
	held, err := s.Held()
	if err != nil {
		return manifest.Head{}, err
	}
	partial, err := s.Partial()
	if err != nil {
		return manifest.Head{}, err
	}
	for _, h := range slices.Backward(heads) {
		if slices.Contains(held, h.Manifest) || slices.Contains(partial, h.Manifest) {
			return h, nil
		}
	}
	return manifest.Head{}, nil
}

// Partial lists the checkpoints of which this disk has parts, complete or not.
func (s *Store) Partial() ([]manifest.Hash, error) { return s.list(Partial) }

// list returns the hashes that are file names in a directory.
func (s *Store) list(dir string) (all []manifest.Hash, err error) {
	list, err := s.disk.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		var h manifest.Hash
		if h.UnmarshalText([]byte(e.Name())) == nil {
			all = append(all, h)
		}
	}
	return all, err
}
