package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrNotEmpty means that a directory that must be empty is not.
var ErrNotEmpty = errors.New("the directory is not empty")

// Export writes the files of a checkpoint into dir, and creates dir if needed. It reads each chunk
// from the first source whose bytes have the right hash. The files get their names when all are
// complete. Files of an interrupted Export are ignored. Errors: ErrNotEmpty, ErrNotHeld,
// ErrDamaged, ErrNoSpace.
func Export(ctx context.Context, m *manifest.Manifest, from []Source, dir string) error {
	t, err := dirfs.Make(dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer t.Close()
	to := dirfs.NewScratchDisk(t)
	if err := exportTo(ctx, m, from, to); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func exportTo(ctx context.Context, m *manifest.Manifest, from []Source, to *dirfs.Disk) error {
	const all = manifest.ReservedPrefix + "all"
	list, err := to.FS.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), manifest.ReservedPrefix) {
			return ErrNotEmpty
		}
	}
	for _, e := range list {
		if err := to.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	if err := to.CheckSpace(m.Bytes(), 0); err != nil {
		return err
	}
	if err := writeAll(ctx, m, from, below{to, all}); err != nil {
		return errors.Join(err, to.RemoveAll(all))
	}
	tops := map[string]bool{}
	for _, f := range m.Files {
		tops[manifest.TopOf(f.Path)] = true
	}
	for top := range tops {
		if err := to.FS.Rename(path.Join(all, top), top); err != nil {
			return err
		}
	}
	if err := to.RemoveAll(all); err != nil {
		return err
	}
	return to.SyncDir(".")
}

// below is a directory of a disk.
type below struct {
	*dirfs.Disk
	dir string
}

// writeAll writes the files into the directory to, durably.
func writeAll(ctx context.Context, m *manifest.Manifest, from []Source, to below) error {
	all := to.dir
	dirs := map[string]bool{}
	for _, f := range m.Files {
		for d := path.Dir(path.Join(all, f.Path)); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for d := range dirs {
		if err := to.FS.Mkdir(d, 0o755); err != nil {
			return dirfs.WrapNoSpace(err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streams)
	for _, f := range m.Files {
		g.Go(func() error {
			return to.Write(path.Join(all, f.Path), f.Mode, func(w io.Writer) error {
				return f.Copy(ctx, w,
					func(h manifest.Hash, dst []byte) error { return loadChunk(ctx, from, h, dst) })
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for d := range dirs {
		if err := to.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

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
