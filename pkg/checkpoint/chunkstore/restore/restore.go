// Package restore writes the files of a checkpoint into a directory. Each entry of the directory is
// replaced atomically. Entries with the right bytes are not changed. After a crash the next restore
// repairs the directory.
package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Source provides the chunks of a checkpoint, and records the chunks of files. Several goroutines call it.
type Source interface {
	// ReadChunk reads a chunk into dst and verifies it.
	ReadChunk(h manifest.Hash, dst []byte) error
	// Contents returns the chunks of a file in this state, if they are known.
	Contents(state dirfs.FileState) (manifest.Chunks, bool)
	// NoteContents records the chunks of a file in this state.
	NoteContents(state dirfs.FileState, chunks manifest.Chunks)
}

// Files writes the files of m into the directory t. ErrNoSpace and ErrOneName are returned before
// the first byte is written. Errors of the source are returned unchanged.
func Files(ctx context.Context, t dirfs.FS, m *manifest.Manifest, from Source) error {
	r := &restoring{to: dirfs.NewScratchDisk(t), from: from}
	if err := Clean(r.to); err != nil {
		return err
	}
	if err := r.putBack(ctx, m); err != nil {
		return errors.Join(err, Clean(r.to))
	}
	return nil
}

// Needed returns how many bytes Files would write into the directory t.
func Needed(ctx context.Context, t dirfs.FS, m *manifest.Manifest, from Source) (int64, error) {
	r := &restoring{to: dirfs.NewScratchDisk(t), from: from}
	_, n, err := r.differing(ctx, m)
	return n, err
}

// restoring is one restore into a directory.
type restoring struct {
	to   *dirfs.Disk
	from Source
}

// putBack replaces the entries that differ.
func (r *restoring) putBack(ctx context.Context, m *manifest.Manifest) error {
	if err := distinctNames(r.to, m); err != nil {
		return err
	}
	todo, n, err := r.differing(ctx, m)
	if err != nil {
		return err
	}
	if err := r.to.CheckSpace(n, 0); err != nil {
		return err
	}
	for _, files := range todo {
		if unit := m.Unit(files[0]); unit != files[0].Path {
			err = r.restoreDir(ctx, unit, files)
		} else {
			err = r.restoreFile(ctx, files[0])
		}
		if err != nil {
			return err
		}
	}
	if len(todo) == 0 {
		return nil
	}
	above := map[string]bool{".": true}
	for _, files := range todo {
		for d := path.Dir(m.Unit(files[0])); d != "."; d = path.Dir(d) {
			above[d] = true
		}
	}
	for d := range above {
		if err := r.to.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// differing groups the files by their first name, and returns the groups that differ from the
// directory, and their size.
func (r *restoring) differing(
	ctx context.Context, m *manifest.Manifest,
) (todo [][]manifest.File, size int64, err error) {
	// "a-b" is between "a" and "a/b", so the files of a group may not be adjacent
	byTop := map[string][]manifest.File{}
	for _, f := range m.Files {
		top := m.Unit(f)
		byTop[top] = append(byTop[top], f)
	}
	for top, files := range byTop {
		same, err := r.same(ctx, top, files)
		if err != nil {
			return nil, 0, err
		}
		if same {
			continue
		}
		todo = append(todo, files)
		for _, f := range files {
			size += f.Size
		}
	}
	slices.SortFunc(todo, func(a, b []manifest.File) int { return strings.Compare(a[0].Path, b[0].Path) })
	return todo, size, nil
}

// same reports whether top has exactly these files with the right bytes.
func (r *restoring) same(ctx context.Context, top string, files []manifest.File) (bool, error) {
	there, err := dirfs.Walk(r.to.FS, top, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || len(there) != len(files) {
		return false, err
	}
	slices.SortFunc(there, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	for i, f := range files {
		if there[i].Path != f.Path || there[i].State.Size != f.Size || there[i].Mode != f.Mode {
			return false, nil
		}
	}
	for i, f := range files {
		known, ok := r.from.Contents(there[i].State)
		if ok && slices.Equal(known, f.Chunks) {
			continue
		}
		if ok, err := r.equal(ctx, f); !ok || err != nil {
			return false, err
		}
		r.from.NoteContents(there[i].State, f.Chunks)
	}
	return true, nil
}

// equal compares a file with its chunks.
func (r *restoring) equal(ctx context.Context, f manifest.File) (bool, error) {
	in, err := r.to.FS.Open(f.Path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum := sha256.New()
	for i, h := range f.Chunks {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		sum.Reset()
		if _, err := io.CopyN(sum, in, manifest.ChunkLen(f.Size, i)); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if manifest.Hash(sum.Sum(nil)) != h {
			return false, nil
		}
	}
	return true, nil
}
