package restore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

const displaced = manifest.ReservedPrefix + "was-"

// displacedName returns the name to which an entry is moved while it is replaced.
func displacedName(name string) string { return displaced + url.PathEscape(name) }

// Clean removes what an interrupted restore left in a directory. An entry that was moved away is
// complete, and is moved back unless there is a new one.
func Clean(to *dirfs.Disk) error {
	list, err := to.FS.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		name, moved := strings.CutPrefix(e.Name(), displaced)
		if name, err = url.PathUnescape(name); moved && err == nil {
			if _, err := to.FS.Lstat(name); errors.Is(err, fs.ErrNotExist) {
				if err := to.FS.Rename(e.Name(), name); err != nil {
					return err
				}
				continue
			}
		}
		if strings.HasPrefix(e.Name(), manifest.ReservedPrefix) {
			if err := to.RemoveAll(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreFile writes a file with a temporary name, and renames it.
func (r *restoring) restoreFile(ctx context.Context, f manifest.File) error {
	temp := r.to.TempName()
	if err := r.to.Write(temp, f.Mode, r.content(ctx, f)); err != nil {
		return err
	}
	if err := r.parents(f.Path); err != nil {
		return err
	}
	if fi, err := r.to.FS.Lstat(f.Path); err == nil && fi.IsDir() {
		if err := r.to.FS.Rename(f.Path, displacedName(f.Path)); err != nil {
			return err
		}
	}
	if err := r.to.Move(temp, f.Path); err != nil {
		return err
	}
	return errors.Join(r.to.RemoveAll(displacedName(f.Path)), r.noteRestored(f))
}

// writers is how many files of a directory are written at the same time.
const writers = 4

// restoreDir builds the directory with a temporary name, and renames it when it is durable.
func (r *restoring) restoreDir(ctx context.Context, top string, files []manifest.File) error {
	temp := manifest.ReservedPrefix + "new-" + url.PathEscape(top)
	at := func(f manifest.File) string { return temp + strings.TrimPrefix(f.Path, top) }
	dirs := map[string]bool{temp: true}
	for _, f := range files {
		dir := path.Dir(at(f))
		if err := r.to.FS.Mkdir(dir, 0o755); err != nil {
			return dirfs.WrapNoSpace(err)
		}
		for d := dir; d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for _, f := range files {
		g.Go(func() error { return r.to.Write(at(f), f.Mode, r.content(ctx, f)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for d := range dirs {
		if err := r.to.SyncDir(d); err != nil {
			return err
		}
	}
	if err := r.parents(top); err != nil {
		return err
	}
	if _, err := r.to.FS.Lstat(top); err == nil {
		if err := r.to.FS.Rename(top, displacedName(top)); err != nil {
			return err
		}
	}
	if err := r.to.FS.Rename(temp, top); err != nil {
		return err
	}
	for _, f := range files {
		if err := r.noteRestored(f); err != nil {
			return err
		}
	}
	return r.to.RemoveAll(displacedName(top))
}

// noteRestored records the chunks of a file that was just written.
func (r *restoring) noteRestored(f manifest.File) error {
	fi, err := r.to.FS.Lstat(f.Path)
	if err != nil {
		return err
	}
	r.from.NoteContents(dirfs.StateOf(fi), f.Chunks)
	return nil
}

// parents creates the directories above a name. It replaces files that have their names.
func (r *restoring) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if fi, err := r.to.FS.Lstat(at); err == nil && !fi.IsDir() {
			if err := r.to.Discard(at); err != nil {
				return err
			}
		}
	}
	return dirfs.WrapNoSpace(r.to.FS.Mkdir(dir, 0o755))
}

// content returns a function that writes the bytes of a file.
func (r *restoring) content(ctx context.Context, f manifest.File) func(io.Writer) error {
	return func(w io.Writer) error { return f.Copy(ctx, w, r.from.ReadChunk) }
}
