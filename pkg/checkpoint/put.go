package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/schema"
)

var (
	// ErrTorn says that a save changed while it was read, or is not whole.
	ErrTorn = errors.New("torn save")
	// ErrBadPath says that a save has a name that no manifest may have.
	ErrBadPath = errors.New("bad path in the save")
)

// Stamp says whose workers wrote a save. It is fixed when they start, never
// when their save is seen, put or committed.
type Stamp struct {
	Job        schema.Job
	UID        schema.UID
	Generation schema.Generation
	WorldSize  int
}

// Save is a picture of a checkpoint directory, still to be copied: which
// files, in which state. Put copies them only while that is still their state.
type Save struct {
	Stamp
	Sequence      uint64 // of the saves of this generation
	Entry         string
	Step, Samples *int64
	Time          time.Time

	files []source // by path, ascending
	dir   tree

	seen    map[string]*entry // all that was in the directory, for Taken
	entries []string          // those of them that are in the save
}

type source struct {
	path string
	mode fs.FileMode
	id   ident
}

// Bytes is the size of all files together.
func (s Save) Bytes() (n int64) {
	for _, f := range s.files {
		n += f.id.Size
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
func (s *Store) Put(ctx context.Context, save Save) (*Manifest, Hash, error) {
	m, err := save.manifest()
	if err != nil {
		return nil, Hash{}, err
	}
	if err := s.See(save.Generation); err != nil {
		return nil, Hash{}, err
	}
	pins := s.pins()
	defer pins.release()
	todo, err := s.reuse(save, m, pins)
	if err != nil {
		return nil, Hash{}, err
	}
	room, err := s.room(todo)
	if err != nil {
		return nil, Hash{}, err
	}
	defer room.release()
	known, err := s.copyIn(ctx, save, m, pins, room)
	if err != nil {
		return nil, Hash{}, fmt.Errorf("put: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, Hash{}, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	raw, h := m.Encode()
	if err := s.publish(ctx, save.Generation, m, raw, h); err != nil {
		return nil, Hash{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	return m, h, nil
}

// manifest is that of the save, without chunks yet.
func (s Save) manifest() (*Manifest, error) {
	m := &Manifest{
		Format: manifestFormat, Job: s.Job, UID: s.UID, Generation: s.Generation, Sequence: s.Sequence, WorldSize: s.WorldSize,
		Entry: s.Entry, Step: s.Step, Samples: s.Samples, Time: s.Time.UTC().Truncate(time.Millisecond),
	}
	if len(s.files) > maxFiles || s.Bytes() > maxBytes {
		return nil, fmt.Errorf("%w: %d files of %d bytes", ErrBadPath, len(s.files), s.Bytes())
	}
	for _, f := range s.files {
		if err := checkPath(f.path); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadPath, err)
		}
		m.Files = append(m.Files, File{Path: f.path, Size: f.id.Size, Mode: f.mode.Perm()})
	}
	return m, nil
}

// reuse fills in the files that are as they were at the last Put, and returns
// the bytes of the others.
func (s *Store) reuse(save Save, m *Manifest, p *pins) (todo int64, err error) {
	for i, f := range save.files {
		s.mu.Lock()
		chunks, ok := s.known[f.id]
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
			todo += f.id.Size
		}
	}
	return todo, nil
}

type piece struct {
	to   *Hash // where its hash goes
	data []byte
}

// copyIn fills in the chunks of all other files. One goroutine reads, a few hash and write.
func (s *Store) copyIn(ctx context.Context, save Save, m *Manifest, p *pins, room *room) (map[ident]Chunks, error) {
	g, ctx := errgroup.WithContext(ctx)
	work, buffers := make(chan piece), make(chan []byte, putBuffers)
	for range putBuffers {
		buffers <- nil // made when needed
	}
	known := map[ident]Chunks{}
	g.Go(func() error {
		defer close(work)
		for i, f := range save.files {
			if m.Files[i].Chunks == nil && f.id.Size > 0 {
				m.Files[i].Chunks = make(Chunks, chunksOf(f.id.Size))
				if err := read(ctx, save.dir, f, m.Files[i].Chunks, work, buffers); err != nil {
					return fmt.Errorf("%s: %w", f.path, err)
				}
			}
			if f.id.published() || f.id.Mtime < save.Time.Add(-racy).UnixNano() {
				known[f.id] = m.Files[i].Chunks
			}
		}
		return unchanged(save)
	})
	for range putWriters {
		g.Go(func() error {
			for w := range work {
				h := Hash(sha256.Sum256(w.data))
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
func read(ctx context.Context, dir tree, f source, chunks Chunks, work chan<- piece, buffers <-chan []byte) error {
	in, err := dir.Open(f.path)
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
		n := int(chunkAt(f.id.Size, i))
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

func still(stat func() (fs.FileInfo, error), f source) error {
	fi, err := stat()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if err != nil {
		return err
	}
	if id := identOf(fi); !fi.Mode().IsRegular() || !id.sameBytes(f.id) {
		return fmt.Errorf("%w: %s changed while it was read", ErrTorn, f.path)
	}
	return nil
}

// unchanged looks at several files once more: each may be whole and one newer
// than the others. A single one that was replaced meanwhile is as good as before.
func unchanged(save Save) error {
	if len(save.files) == 1 {
		return nil
	}
	for _, f := range save.files {
		if err := still(func() (fs.FileInfo, error) { return save.dir.Lstat(f.path) }, f); err != nil {
			return err
		}
	}
	return nil
}
