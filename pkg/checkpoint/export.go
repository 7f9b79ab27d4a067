package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"
)

// ErrNotEmpty says that there is something in a directory that must have nothing in it.
var ErrNotEmpty = errors.New("the directory is not empty")

// FindManifest reads a manifest from the first of the sources that has it:
// ErrNotHeld if none does, ErrDamaged too if one has it no longer whole.
func FindManifest(ctx context.Context, h Hash, from []Source) (*Manifest, error) {
	errs := []error{fmt.Errorf("manifest %v: %w", h, ErrNotHeld)}
	for _, s := range from {
		raw, err := s.Manifest(ctx, h)
		if err == nil && sum(raw) != h {
			err = fmt.Errorf("manifest %v: %w", h, ErrDamaged)
		}
		if err == nil {
			return DecodeManifest(raw)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Export puts the files of a checkpoint into dir, which is made if need be,
// from whichever source has each chunk true to its hash. They get their names
// when all of them are there; what an Export left that was interrupted before
// does not count. ErrNotEmpty, ErrNotHeld, ErrDamaged, ErrNoSpace.
func Export(ctx context.Context, m *Manifest, from []Source, dir string) error {
	t, err := makeTree(dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer t.Close()
	to := &disk{tree: t, scratch: own}
	if err := exportTo(ctx, m, from, to); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func exportTo(ctx context.Context, m *Manifest, from []Source, to *disk) error {
	const all = own + "all"
	list, err := to.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), own) {
			return ErrNotEmpty
		}
	}
	for _, e := range list {
		if err := to.removeAll(e.Name()); err != nil {
			return err
		}
	}
	if err := to.enough(m.Bytes(), 0); err != nil {
		return err
	}
	if err := writeAll(ctx, m, from, to, all); err != nil {
		return errors.Join(err, to.removeAll(all))
	}
	tops := map[string]bool{}
	for _, f := range m.Files {
		tops[topOf(f.Path)] = true
	}
	for top := range tops {
		if err := to.Rename(path.Join(all, top), top); err != nil {
			return err
		}
	}
	if err := to.removeAll(all); err != nil {
		return err
	}
	return to.syncDir(".")
}

// writeAll makes the files below the directory all, durable with their names.
func writeAll(ctx context.Context, m *Manifest, from []Source, to *disk, all string) error {
	dirs := map[string]bool{}
	for _, f := range m.Files {
		for d := path.Dir(path.Join(all, f.Path)); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for d := range dirs {
		if err := to.Mkdir(d, 0o755); err != nil {
			return noSpace(err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streams)
	for _, f := range m.Files {
		g.Go(func() error {
			return to.write(path.Join(all, f.Path), &sourceReader{ctx: ctx, from: from, f: f}, f.Mode)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for d := range dirs {
		if err := to.syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// sourceReader yields the bytes of a file, chunk by chunk, each only after its hash was found right.
type sourceReader struct {
	ctx  context.Context
	from []Source
	f    File
	next int
	buf  []byte // of ChunkSize at most
	rest []byte
}

func (r *sourceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.next == len(r.f.Chunks) {
			return 0, io.EOF
		}
		if r.buf == nil {
			r.buf = make([]byte, min(ChunkSize, r.f.Size))
		}
		data := r.buf[:chunkAt(r.f.Size, r.next)]
		if err := r.load(r.f.Chunks[r.next], data); err != nil {
			return 0, err
		}
		r.rest = data
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *sourceReader) load(h Hash, data []byte) error {
	errs := []error{fmt.Errorf("%s: chunk %v: %w", r.f.Path, h, ErrNotHeld)}
	for _, s := range r.from {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		err := s.Chunk(r.ctx, h, data)
		if err == nil && sum(data) != h {
			err = fmt.Errorf("chunk %v: %w", h, ErrDamaged)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
