package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// Source is a place from which checkpoints can be read: a readonly.Store or a RemoteSource. Its
// errors are ErrNotHeld, ErrDamaged, ErrStranger, and errors of the disk or the network.
type Source interface {
	Manifest(ctx context.Context, h manifest.Hash) ([]byte, error)
	// Chunk reads a chunk into dst, which has its size.
	Chunk(ctx context.Context, h manifest.Hash, dst []byte) error
}

// RemoteSource is another node as a Source. After a request without an answer it fails at once,
// because each further chunk would wait too.
type RemoteSource struct {
	Peers Peers
	Node  membership.Ref

	mu   sync.Mutex
	away error // the error after which each request fails
}

func (d *RemoteSource) Manifest(ctx context.Context, h manifest.Hash) (raw []byte, err error) {
	err = d.ask(func() error {
		raw, err = d.Peers.Manifest(ctx, d.Node, h)
		return err
	})
	return raw, err
}

func (d *RemoteSource) Chunk(ctx context.Context, h manifest.Hash, dst []byte) error {
	return d.ask(func() error { return d.Peers.Chunk(ctx, d.Node, h, dst) })
}

func (d *RemoteSource) ask(f func() error) error {
	d.mu.Lock()
	err := d.away
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err = f(); err == nil || errors.Is(err, chunkstore.ErrNotHeld) ||
		errors.Is(err, chunkstore.ErrDamaged) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = err
	return err
}

// FindManifest reads a manifest from the first source that has it. It fails with ErrNotHeld if none
// has it, and also with ErrDamaged if one has it damaged.
func FindManifest(ctx context.Context, h manifest.Hash, from []Source) (*manifest.Manifest, error) {
	errs := []error{fmt.Errorf("manifest %v: %w", h, chunkstore.ErrNotHeld)}
	for _, s := range from {
		raw, err := s.Manifest(ctx, h)
		if err == nil && manifest.Sum(raw) != h {
			err = fmt.Errorf("manifest %v: %w", h, chunkstore.ErrDamaged)
		}
		if err == nil {
			return manifest.Decode(raw)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
