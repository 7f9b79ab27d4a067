package chunkstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrTorn says that a save changed while it was read, or is not whole.
var ErrTorn = errors.New("torn save")

// Save is a picture of a checkpoint directory, still to be copied: which
// files, in which state. Put copies them only while that is still their state.
type Save struct {
	manifest.Stamp
	Sequence      uint64 // of the saves of this generation
	Entry         string
	Step, Samples *int64
	Cursor        *manifest.Cursor
	Time          time.Time
	Written       []string // see manifest.Manifest
	Directories   []string // likewise

	Files []dirfs.Found // by path, ascending
	Dir   dirfs.Reader
}

// Bytes is the size of all files together.
func (s Save) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.State.Size
	}
	return n
}

const (
	putWriters = 4              // hash, write and sync at once
	putBuffers = putWriters + 2 // of ChunkSize
	racy       = time.Second    // a file written less than this before it was read may change without looking so
)

// Put copies a save into the store, durably, and returns its manifest and the
// hash of that. ErrNoSpace before the first byte, ErrTorn when a file is not
// what it was in the picture, ErrBadPath, ErrFenced, ErrQuarantined.
func (s *Store) Put(ctx context.Context, save Save) (*manifest.Manifest, manifest.Hash, error) {
	m, err := save.manifest()
	if err != nil {
		return nil, manifest.Hash{}, err
	}
	if err := s.Raise(save.Generation); err != nil {
		return nil, manifest.Hash{}, err
	}
	pins := s.pins()
	defer pins.release()
	todo, err := s.reuse(save, m, pins)
	if err != nil {
		return nil, manifest.Hash{}, err
	}
	room, err := s.room(todo)
	if err != nil {
		return nil, manifest.Hash{}, err
	}
	defer room.release()
	known, err := s.copyIn(ctx, save, m, pins, room)
	if err != nil {
		return nil, manifest.Hash{}, fmt.Errorf("put: %w", err)
	}
	if err := m.Check(); err != nil {
		return nil, manifest.Hash{}, fmt.Errorf("%w: %w", manifest.ErrBadManifest, err)
	}
	raw, h := m.Encode()
	if err := s.publish(ctx, save.Generation, m, raw, h); err != nil {
		return nil, manifest.Hash{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	return m, h, nil
}

// manifest is that of the save, without chunks yet.
func (s Save) manifest() (*manifest.Manifest, error) {
	m := &manifest.Manifest{
		Format: manifest.Format, Job: s.Job, UID: s.UID, Generation: s.Generation, Sequence: s.Sequence,
		WorldSize: s.WorldSize, Part: s.Part,
		Entry: s.Entry, Written: s.Written, Directories: s.Directories, Step: s.Step, Samples: s.Samples,
		Cursor: s.Cursor,
		Time:   s.Time.UTC().Truncate(time.Millisecond),
	}
	if len(s.Files) > manifest.MaxFiles || s.Bytes() > manifest.MaxBytes {
		return nil, fmt.Errorf("%w: %d files of %d bytes", manifest.ErrBadPath, len(s.Files), s.Bytes())
	}
	for _, f := range s.Files {
		if err := manifest.CheckPath(f.Path); err != nil {
			return nil, fmt.Errorf("%w: %w", manifest.ErrBadPath, err)
		}
		m.Files = append(m.Files, manifest.File{Path: f.Path, Size: f.State.Size, Mode: f.Mode.Perm()})
	}
	return m, nil
}

// reuse fills in the files that are as they were at the last Put, and returns
// the bytes of the others.
func (s *Store) reuse(save Save, m *manifest.Manifest, p *pins) (todo int64, err error) {
	for i, f := range save.Files {
		s.mu.Lock()
		chunks, ok := s.known[f.State]
		ok = ok && !f.Unsure
		s.mu.Unlock()
		for _, h := range chunks {
			p.add(h)
			if ok {
				if ok, err = s.ensure(h); err != nil {
					return 0, err
				}
			}
		}
		if ok {
			m.Files[i].Chunks = chunks
		} else {
			m.Files[i].Chunks = nil
			todo += f.State.Size
		}
	}
	return todo, nil
}

type piece struct {
	to   *manifest.Hash // where its hash goes
	data []byte
}

// copyIn fills in the chunks of all other files. One goroutine reads, a few hash and write.
func (s *Store) copyIn(ctx context.Context, save Save, m *manifest.Manifest, p *pins,
	room *room) (map[dirfs.FileState]manifest.Chunks, error) {
	g, ctx := errgroup.WithContext(ctx)
	work, buffers := make(chan piece), make(chan []byte, putBuffers)
	for range putBuffers {
		buffers <- nil // made when needed
	}
	known := map[dirfs.FileState]manifest.Chunks{}
	g.Go(func() error {
		defer close(work)
		for i, f := range save.Files {
			if m.Files[i].Chunks == nil && f.State.Size > 0 {
				m.Files[i].Chunks = make(manifest.Chunks, manifest.ChunkCount(f.State.Size))
				if err := read(ctx, save.Dir, f, m.Files[i].Chunks, work, buffers); err != nil {
					return fmt.Errorf("%s: %w", f.Path, err)
				}
			}
			if f.State.Published() || f.State.Mtime < save.Time.Add(-racy).UnixNano() {
				known[f.State] = m.Files[i].Chunks
			}
		}
		return unchanged(save)
	})
	for range putWriters {
		g.Go(func() error {
			for w := range work {
				h := manifest.Hash(sha256.Sum256(w.data))
				*w.to = h
				p.add(h)
				ok, err := s.ensure(h)
				if err == nil && !ok {
					err = s.writeChunk(h, w.data)
				}
				if err != nil {
					return err
				}
				room.spend(int64(len(w.data)))
				buffers <- w.data[:0]
			}
			return nil
		})
	}
	return known, g.Wait()
}

// read hands out one file, piece by piece: ErrTorn unless it is, before and
// after, the file of the picture. Its name may be another's by then.
func read(ctx context.Context, dir dirfs.Reader, f dirfs.Found, chunks manifest.Chunks, work chan<- piece,
	buffers <-chan []byte) error {
	in, err := dir.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if err := still(in.Stat, f); err != nil {
		return err
	}
	for i := range chunks {
		var buf []byte
		select {
		case buf = <-buffers:
		case <-ctx.Done():
			return ctx.Err()
		}
		n := int(manifest.ChunkLen(f.State.Size, i))
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = ErrTorn
			}
			return err
		}
		select {
		case work <- piece{&chunks[i], buf[:n]}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return still(in.Stat, f)
}

func still(stat func() (fs.FileInfo, error), f dirfs.Found) error {
	fi, err := stat()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if err != nil {
		return err
	}
	if id := dirfs.StateOf(fi); !fi.Mode().IsRegular() || !id.SameBytes(f.State) {
		return fmt.Errorf("%w: %s changed while it was read", ErrTorn, f.Path)
	}
	return nil
}

// unchanged looks at several files once more: each may be whole and one newer
// than the others. A single one that was replaced meanwhile is as good as before.
func unchanged(save Save) error {
	if len(save.Files) == 1 {
		return nil
	}
	for _, f := range save.Files {
		if err := still(func() (fs.FileInfo, error) { return save.Dir.Lstat(f.Path) }, f); err != nil {
			return err
		}
	}
	return nil
}
