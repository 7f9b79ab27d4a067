package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/membership"
)

// Source has checkpoints to read: a Shelf, or a Distant node. Its errors are
// ErrNotHeld, ErrDamaged, ErrStranger, and what the disk or the network brings.
type Source interface {
	Manifest(ctx context.Context, h Hash) ([]byte, error)
	// Chunk fills dst, which has the size of the chunk.
	Chunk(ctx context.Context, h Hash, dst []byte) error
}

// Distant is another node as a Source. One that did not answer is not asked
// again: each chunk would wait for it.
type Distant struct {
	Peers Peers
	Node  membership.Ref

	mu   sync.Mutex
	away error
}

func (d *Distant) Manifest(ctx context.Context, h Hash) (raw []byte, err error) {
	err = d.ask(func() error {
		raw, err = d.Peers.Manifest(ctx, d.Node, h)
		return err
	})
	return raw, err
}

func (d *Distant) Chunk(ctx context.Context, h Hash, dst []byte) error {
	return d.ask(func() error { return d.Peers.Chunk(ctx, d.Node, h, dst) })
}

func (d *Distant) ask(f func() error) error {
	d.mu.Lock()
	err := d.away
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err = f(); err == nil || errors.Is(err, ErrNotHeld) || errors.Is(err, ErrDamaged) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = err
	return err
}

// Shelf is the directory of a Store, read from outside: its owner may be at
// work in it, and nothing is changed.
type Shelf struct {
	disk disk

	mu   sync.Mutex
	read map[Hash]bool // chunks that Verify read, and whether they are true to their hash
}

// OpenShelf opens the directory of a store: fs.ErrNotExist where there is none.
func OpenShelf(dir string) (*Shelf, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	return newShelf(t), nil
}

func newShelf(t tree) *Shelf { return &Shelf{disk: disk{tree: t}, read: map[Hash]bool{}} }

func (s *Shelf) Close() error { return s.disk.Close() }

// Held lists the manifests that are there, whole or not.
func (s *Shelf) Held() (all []Hash, err error) {
	list, err := s.disk.ReadDir(manifestDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		var h Hash
		if h.UnmarshalText([]byte(e.Name())) == nil {
			all = append(all, h)
		}
	}
	return all, err
}

func (s *Shelf) Manifest(_ context.Context, h Hash) ([]byte, error) {
	raw, err := s.disk.readFile(path.Join(manifestDir, h.String()), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("manifest %v: %w", h, ErrNotHeld)
	}
	if err == nil && sum(raw) != h {
		err = fmt.Errorf("manifest %v: %w", h, ErrDamaged)
	}
	return raw, err
}

func (s *Shelf) Chunk(_ context.Context, h Hash, dst []byte) error {
	f, err := s.disk.Open(chunkPath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("chunk %v: %w", h, ErrNotHeld)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, dst)
	if short(err) || err == nil && sum(dst) != h {
		return fmt.Errorf("chunk %v: %w", h, ErrDamaged)
	}
	return err
}

func short(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// Damage is a part of a checkpoint that is gone, or not what it was.
type Damage struct {
	Path   string // of the file; "" is the manifest, and so all of it
	Offset int64
	Chunk  Hash // zero for the manifest
}

// Verify reads every byte of a checkpoint, each chunk once however many
// checkpoints have it. What its owner removes meanwhile is no damage: ErrNotHeld.
func (s *Shelf) Verify(ctx context.Context, h Hash) (*Manifest, []Damage, error) {
	raw, err := s.Manifest(ctx, h)
	var m *Manifest
	if err == nil {
		m, err = DecodeManifest(raw)
	}
	switch {
	case errors.Is(err, ErrDamaged) || errors.Is(err, ErrBadManifest):
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
				bad = append(bad, Damage{f.Path, int64(i) * ChunkSize, c})
			}
		}
	}
	if bad != nil { // a manifest is removed before its chunks
		if _, err := s.disk.Lstat(path.Join(manifestDir, h.String())); errors.Is(err, fs.ErrNotExist) {
			return m, nil, fmt.Errorf("manifest %v: %w", h, ErrNotHeld)
		}
	}
	return m, bad, nil
}

func (s *Shelf) readChunks(ctx context.Context, m *Manifest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streams)
	for c := range m.chunks() {
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
			got, err := s.disk.sum(chunkPath(c))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// FileHash is the SHA-256 of the whole file where its chunks tell it.
func (f File) FileHash() (h Hash, known bool) {
	switch len(f.Chunks) {
	case 0:
		return sha256.Sum256(nil), true
	case 1:
		return f.Chunks[0], true
	}
	return Hash{}, false
}
