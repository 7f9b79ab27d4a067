package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrNotEmpty means that a directory that must be empty is not.
var ErrNotEmpty = errors.New("the directory is not empty")

// Export restores a checkpoint into dir, and creates dir if needed. It reads each chunk from the first
// source whose bytes have the right hash. After an error dir has no file. Errors: ErrNotEmpty, ErrNotHeld,
// ErrDamaged, ErrNoSpace, restore.ErrOneName.
func Export(ctx context.Context, m *manifest.Manifest, from []Source, dir string) error {
	t, err := dirfs.Make(dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer t.Close()
	if err := exportTo(ctx, m, from, t); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func exportTo(ctx context.Context, m *manifest.Manifest, from []Source, to dirfs.FS) error {
	list, err := to.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), manifest.ReservedPrefix) {
			return ErrNotEmpty
		}
	}
	load := func(h manifest.Hash, dst []byte) error { return loadChunk(ctx, from, h, dst) }
	if err = restore.Files(ctx, to, m, chunks(load)); err == nil {
		return nil
	}
	tops, disk := map[string]bool{}, dirfs.NewScratchDisk(to)
	for _, f := range m.Files {
		tops[manifest.TopOf(f.Path)] = true
	}
	for top := range tops {
		err = errors.Join(err, disk.RemoveAll(top))
	}
	return err
}

// chunks is a restore.Source for an empty directory: it knows no file.
type chunks func(h manifest.Hash, dst []byte) error

func (c chunks) ReadChunk(h manifest.Hash, dst []byte) error            { return c(h, dst) }
func (chunks) Contents(dirfs.FileState) (c manifest.Chunks, known bool) { return nil, false }
func (chunks) NoteContents(dirfs.FileState, manifest.Chunks)            {}

// loadChunk reads a chunk from the first source whose bytes have the right hash.
func loadChunk(ctx context.Context, from []Source, h manifest.Hash, dst []byte) error {
	errs := []error{fmt.Errorf("chunk %v: %w", h, chunkstore.ErrNotHeld)}
	for _, s := range from {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.Chunk(ctx, h, dst)
		if err == nil && manifest.Sum(dst) != h {
			err = fmt.Errorf("chunk %v: %w", h, chunkstore.ErrDamaged)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
