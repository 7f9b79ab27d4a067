package chunkstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Verify reads every byte of a checkpoint from disk, whatever is believed of
// it: ErrDamaged with the hashes of the chunks that are bad or gone, which a
// Fetch brings back; ErrNotHeld.
func (s *Store) Verify(ctx context.Context, h manifest.Hash) error {
	m, err := s.Manifest(h)
	if err != nil {
		return err
	}
	var bad []manifest.Hash
	for c := range m.DistinctChunks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := s.VerifyChunk(c)
		if err != nil {
			return err
		}
		if !ok {
			bad = append(bad, c)
		}
	}
	if bad != nil {
		return fmt.Errorf("checkpoint %v: %w: %d chunks: %v", h, ErrDamaged, len(bad), bad[:min(len(bad), 8)])
	}
	return nil
}

// Restore puts the files of a checkpoint back into dir, and returns the path
// that a worker resumes from. Each file and each directory is there whole or
// as it was before; what has the right bytes already is not touched. A crash
// in between is repaired by the next Restore. ErrNotHeld, ErrDamaged, ErrNoSpace.
func (s *Store) Restore(ctx context.Context, h manifest.Hash, dir string) (string, error) {
	t, err := dirfs.Make(dir)
	if err != nil {
		return "", err
	}
	defer t.Close()
	m, err := s.RestoreTo(ctx, h, t)
	if err != nil {
		return "", fmt.Errorf("restore checkpoint %v: %w", h, err)
	}
	return filepath.Join(dir, filepath.FromSlash(m.Entry)), nil
}

// RestoreTo is Restore into a directory that is open.
func (s *Store) RestoreTo(ctx context.Context, h manifest.Hash, t dirfs.FS) (*manifest.Manifest, error) {
	m, err := s.Manifest(h)
	if err != nil {
		return nil, err
	}
	to := dirfs.NewScratchDisk(t)
	if err := CleanRestore(to); err != nil {
		return nil, err
	}
	if err := s.putBack(ctx, to, m); err != nil {
		return nil, errors.Join(err, CleanRestore(to))
	}
	return m, nil
}

func (s *Store) putBack(ctx context.Context, to *dirfs.Disk, m *manifest.Manifest) error {
	todo, err := s.differing(ctx, to, m)
	if err != nil {
		return err
	}
	var n int64
	for _, files := range todo {
		for _, f := range files {
			n += f.Size
		}
	}
	if err := to.CheckSpace(n, 0); err != nil {
		return err
	}
	for _, files := range todo {
		if unit := m.Unit(files[0]); unit != files[0].Path {
			err = s.restoreDir(ctx, to, unit, files)
		} else {
			err = s.restoreFile(ctx, to, files[0])
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
		if err := to.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what an earlier Restore left when it was interrupted. The
// directory that it had moved out of the way is complete: it goes back if
// nothing took its place.
func CleanRestore(to *dirfs.Disk) error {
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

const displaced = manifest.ReservedPrefix + "was-"

// displacedName is where a name is moved out of the way while it is replaced.
func displacedName(name string) string { return displaced + url.PathEscape(name) }

// differing groups the files by their first name, and leaves out the groups
// that are there already.
func (s *Store) differing(
	ctx context.Context, to *dirfs.Disk, m *manifest.Manifest,
) (todo [][]manifest.File, err error) {
	// "a-b" comes between "a" and "a/b": what belongs together need not be together
	byTop := map[string][]manifest.File{}
	for _, f := range m.Files {
		top := m.Unit(f)
		byTop[top] = append(byTop[top], f)
	}
	for top, files := range byTop {
		same, err := s.same(ctx, to, top, files)
		if err != nil {
			return nil, err
		}
		if !same {
			todo = append(todo, files)
		}
	}
	slices.SortFunc(todo, func(a, b []manifest.File) int { return strings.Compare(a[0].Path, b[0].Path) })
	return todo, nil
}

// same reports whether top has exactly these files, byte for byte.
func (s *Store) same(ctx context.Context, to *dirfs.Disk, top string, files []manifest.File) (bool, error) {
	there, err := dirfs.Walk(to.FS, top, nil)
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
		s.mu.Lock()
		known, ok := s.known[there[i].State]
		s.mu.Unlock()
		if ok && slices.Equal(known, f.Chunks) {
			continue
		}
		if ok, err := s.equal(ctx, to, f); !ok || err != nil {
			return false, err
		}
		s.mu.Lock()
		s.known[there[i].State] = f.Chunks
		s.mu.Unlock()
	}
	return true, nil
}

// equal reads the file and compares it with what it should be.
func (s *Store) equal(ctx context.Context, to *dirfs.Disk, f manifest.File) (bool, error) {
	in, err := to.FS.Open(f.Path)
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

func (s *Store) restoreFile(ctx context.Context, to *dirfs.Disk, f manifest.File) error {
	temp := to.TempName()
	if err := to.Write(temp, f.Mode, s.content(ctx, f)); err != nil {
		return err
	}
	if err := s.parents(to, f.Path); err != nil {
		return err
	}
	if fi, err := to.FS.Lstat(f.Path); err == nil && fi.IsDir() {
		if err := to.FS.Rename(f.Path, displacedName(f.Path)); err != nil {
			return err
		}
	}
	if err := to.Move(temp, f.Path); err != nil {
		return err
	}
	return errors.Join(to.RemoveAll(displacedName(f.Path)), s.knows(to, f))
}

// knows remembers what a file consists of that was just written.
func (s *Store) knows(to *dirfs.Disk, f manifest.File) error {
	fi, err := to.FS.Lstat(f.Path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[dirfs.StateOf(fi)] = f.Chunks
	return nil
}

// parents makes the directories above a name, in place of files that have their names.
func (s *Store) parents(to *dirfs.Disk, name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if fi, err := to.FS.Lstat(at); err == nil && !fi.IsDir() {
			if err := to.Discard(at); err != nil {
				return err
			}
		}
	}
	return dirfs.WrapNoSpace(to.FS.Mkdir(dir, 0o755))
}

// restoreDir builds the directory under another name, and renames it when it is durable.
func (s *Store) restoreDir(ctx context.Context, to *dirfs.Disk, top string, files []manifest.File) error {
	temp := manifest.ReservedPrefix + "new-" + url.PathEscape(top)
	dirs := map[string]bool{temp: true}
	for _, f := range files {
		name := temp + strings.TrimPrefix(f.Path, top)
		dir := path.Dir(name)
		if err := to.FS.Mkdir(dir, 0o755); err != nil {
			return dirfs.WrapNoSpace(err)
		}
		for d := dir; d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
		if err := to.Write(name, f.Mode, s.content(ctx, f)); err != nil {
			return err
		}
	}
	for d := range dirs {
		if err := to.SyncDir(d); err != nil {
			return err
		}
	}
	if err := s.parents(to, top); err != nil {
		return err
	}
	if _, err := to.FS.Lstat(top); err == nil {
		if err := to.FS.Rename(top, displacedName(top)); err != nil {
			return err
		}
	}
	if err := to.FS.Rename(temp, top); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.knows(to, f); err != nil {
			return err
		}
	}
	return to.RemoveAll(displacedName(top))
}

// readChunk fills dst with a chunk whose hash was found right: ErrDamaged otherwise.
func (s *Store) readChunk(h manifest.Hash, dst []byte) error {
	f, err := s.disk.FS.Open(chunkPath(h))
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, dst)
	}
	gone := errors.Is(err, fs.ErrNotExist) || short(err)
	if err != nil && !gone {
		return err
	}
	if gone || manifest.Sum(dst) != h {
		s.mu.Lock()
		c := s.chunk(h)
		c.present, c.verified = false, false
		s.mu.Unlock()
		return fmt.Errorf("chunk %v: %w", h, ErrDamaged)
	}
	return nil
}

// content is what a file consists of, for disk.write.
func (s *Store) content(ctx context.Context, f manifest.File) func(io.Writer) error {
	return func(w io.Writer) error { return f.Copy(ctx, w, s.readChunk) }
}
