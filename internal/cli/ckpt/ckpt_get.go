package ckpt

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
)

// get writes the verified files of a checkpoint into an empty directory.
func (k *saves) get(ctx context.Context) error {
	h, err := k.wanted()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(k.dir)
	if err != nil {
		return problem.New(problem.CkptDir, "%s: %v", k.dir, err).Of(err)
	}
	from, done, err := k.sources(ctx, h)
	if err != nil {
		return err
	}
	defer done()
	m, err := transfer.FindManifest(ctx, h.Manifest, from)
	if err != nil {
		return k.reading(h, err)
	}
	err = transfer.Export(ctx, m, from, dir)
	var bad *fs.PathError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case errors.Is(err, transfer.ErrNotEmpty):
		return problem.New(problem.CkptDir, "%s is not empty", k.dir).
			Of(err).Because("elastic ckpt get overwrites no file").Cure("a new directory, or an empty one")
	case errors.Is(err, checkpoint.ErrNoSpace):
		return problem.New(problem.CkptDir, "%s: %v", k.dir, err).
			Of(err).Cure("a directory on a disk with %s of room", screen.Size(h.Bytes))
	case errors.Is(err, checkpoint.ErrDamaged), errors.Is(err, checkpoint.ErrNotHeld):
		return k.reading(h, err)
	case errors.As(err, &bad):
		return problem.New(problem.CkptDir, "%s: %v", k.dir, err).Of(err).
			Cure("a directory that can be written")
	default:
		return err
	}
	if k.Out.Json {
		return k.Out.Object(map[string]any{"job": k.snap.Job.Name, "number": h.Number, "dir": dir,
			"entry": m.Entry, "files": len(m.Files), "bytes": m.Bytes()})
	}
	if k.Out.Quiet {
		return k.Out.Line("%s", filepath.Join(dir, filepath.FromSlash(m.Entry)))
	}
	return k.Out.Line("checkpoint %d of job %s is in %s: %s, %s", h.Number, k.snap.Job.Name, k.dir,
		phrase.Count(len(m.Files), "file"), screen.Size(m.Bytes()))
}
