package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Verify reads every byte of a checkpoint from disk, whatever is believed of
// it: ErrDamaged with the hashes of the chunks that are bad or gone, which a
// Fetch brings back; ErrNotHeld.
func (s *Store) Verify(ctx context.Context, h Hash) error {
	m, err := s.Manifest(h)
	if err != nil {
		return err
	}
	var bad []Hash
	for c := range m.chunks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := s.verifyChunk(c)
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
func (s *Store) Restore(ctx context.Context, h Hash, dir string) (string, error) {
	t, err := makeTree(dir)
	if err != nil {
		return "", err
	}
	defer t.Close()
	m, err := s.restore(ctx, h, t)
	if err != nil {
		return "", fmt.Errorf("restore checkpoint %v: %w", h, err)
	}
	return filepath.Join(dir, filepath.FromSlash(m.Entry)), nil
}

func (s *Store) restore(ctx context.Context, h Hash, t tree) (*Manifest, error) {
	m, err := s.Manifest(h)
	if err != nil {
		return nil, err
	}
	to := &disk{tree: t, scratch: own}
	if err := s.clean(to); err != nil {
		return nil, err
	}
	if err := s.putBack(ctx, to, m); err != nil {
		return nil, errors.Join(err, s.clean(to))
	}
	return m, s.setAside(to, m)
}

func (s *Store) putBack(ctx context.Context, to *disk, m *Manifest) error {
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
	if err := to.enough(n, 0); err != nil {
		return err
	}
	for _, files := range todo {
		top, _, nested := strings.Cut(files[0].Path, "/")
		if nested {
			err = s.restoreDir(ctx, to, top, files)
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
	return to.syncDir(".")
}

// clean removes what an earlier Restore left when it was interrupted. The
// directory that it had moved out of the way is complete: it goes back if
// nothing took its place.
func (s *Store) clean(to *disk) error {
	list, err := to.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		name, moved := strings.CutPrefix(e.Name(), displaced)
		if moved {
			if _, err := to.Lstat(name); errors.Is(err, fs.ErrNotExist) {
				if err := to.Rename(e.Name(), name); err != nil {
					return err
				}
				continue
			}
		}
		if strings.HasPrefix(e.Name(), own) {
			if err := to.removeAll(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

const displaced = own + "was-"

// differing groups the files by their first name, and leaves out the groups
// that are there already.
func (s *Store) differing(ctx context.Context, to *disk, m *Manifest) (todo [][]File, err error) {
	byTop := map[string][]File{} // "a-b" comes between "a" and "a/b": what belongs together need not be together
	for _, f := range m.Files {
		top := topOf(f.Path)
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
	slices.SortFunc(todo, func(a, b []File) int { return strings.Compare(a[0].Path, b[0].Path) })
	return todo, nil
}

func topOf(p string) string {
	top, _, _ := strings.Cut(p, "/")
	return top
}

// same reports whether top has exactly these files, byte for byte.
func (s *Store) same(ctx context.Context, to *disk, top string, files []File) (bool, error) {
	there, err := walk(to, top, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || len(there) != len(files) {
		return false, err
	}
	slices.SortFunc(there, func(a, b source) int { return strings.Compare(a.path, b.path) })
	for i, f := range files {
		if there[i].path != f.Path || there[i].id.Size != f.Size || there[i].mode != f.Mode {
			return false, nil
		}
	}
	for i, f := range files {
		s.mu.Lock()
		known, ok := s.known[there[i].id]
		s.mu.Unlock()
		if ok && slices.Equal(known, f.Chunks) {
			continue
		}
		if ok, err := s.equal(ctx, to, f); !ok || err != nil {
			return false, err
		}
		s.mu.Lock()
		s.known[there[i].id] = f.Chunks
		s.mu.Unlock()
	}
	return true, nil
}

// equal reads the file and compares it with what it should be.
func (s *Store) equal(ctx context.Context, to *disk, f File) (bool, error) {
	in, err := to.Open(f.Path)
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
		if _, err := io.CopyN(sum, in, chunkAt(f.Size, i)); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if Hash(sum.Sum(nil)) != h {
			return false, nil
		}
	}
	return true, nil
}

func (s *Store) restoreFile(ctx context.Context, to *disk, f File) error {
	temp, err := to.writeTemp(s.reader(ctx, f), f.Mode)
	if err != nil {
		return err
	}
	if fi, err := to.Lstat(f.Path); err == nil && fi.IsDir() {
		if err := to.Rename(f.Path, displaced+f.Path); err != nil {
			return err
		}
	}
	if err := to.move(temp, f.Path); err != nil {
		return err
	}
	return errors.Join(to.removeAll(displaced+f.Path), s.knows(to, f))
}

// knows remembers what a file consists of that was just written.
func (s *Store) knows(to *disk, f File) error {
	fi, err := to.Lstat(f.Path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[identOf(fi)] = f.Chunks
	return nil
}

// restoreDir builds the directory under another name, and renames it when it is durable.
func (s *Store) restoreDir(ctx context.Context, to *disk, top string, files []File) error {
	temp := own + "new-" + top
	dirs := map[string]bool{temp: true}
	for _, f := range files {
		name := temp + strings.TrimPrefix(f.Path, top)
		dir := path.Dir(name)
		if err := to.Mkdir(dir, 0o755); err != nil {
			return noSpace(err)
		}
		for d := dir; d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
		if err := to.write(name, s.reader(ctx, f), f.Mode); err != nil {
			return err
		}
	}
	for d := range dirs {
		if err := to.syncDir(d); err != nil {
			return err
		}
	}
	if _, err := to.Lstat(top); err == nil {
		if err := to.Rename(top, displaced+top); err != nil {
			return err
		}
	}
	if err := to.Rename(temp, top); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.knows(to, f); err != nil {
			return err
		}
	}
	return to.removeAll(displaced + top)
}

// reader yields the bytes of a file, chunk by chunk, each only after its hash was found right.
func (s *Store) reader(ctx context.Context, f File) io.Reader {
	return &chunkReader{ctx: ctx, s: s, f: f}
}

type chunkReader struct {
	ctx  context.Context
	s    *Store
	f    File
	next int
	buf  []byte // of ChunkSize at most
	rest []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.next == len(r.f.Chunks) {
			return 0, io.EOF
		}
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		if err := r.load(r.f.Chunks[r.next], chunkAt(r.f.Size, r.next)); err != nil {
			return 0, err
		}
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *chunkReader) load(h Hash, size int64) error {
	if r.buf == nil {
		r.buf = make([]byte, min(ChunkSize, r.f.Size))
	}
	f, err := r.s.disk.Open(chunkPath(h))
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, r.buf[:size])
	}
	gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !gone {
		return err
	}
	if gone || sha256.Sum256(r.buf[:size]) != h {
		r.s.mu.Lock()
		c := r.s.chunk(h)
		c.present, c.verified = false, false
		r.s.mu.Unlock()
		return fmt.Errorf("chunk %v: %w", h, ErrDamaged)
	}
	r.rest = r.buf[:size]
	return nil
}
