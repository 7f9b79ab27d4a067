package chunkstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/lent"
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

// maxLent is how many chunks a Put lends with their bytes. It bounds memory: a sender on a slow
// network reads the other chunks from the disk, and the copying goes on.
const maxLent = 2

const (
	putWriters = 3 // hash, write and sync at once
	// putBuffers is how many chunks of a save are in memory: one is read, each writer has one, and
	// the others are lent.
	putBuffers = putWriters + 1 + maxLent
	racy       = time.Second // a file written less than this before it was read may change without looking so
)

// Put copies a save into the store, durably, and returns its manifest and the
// hash of that. ErrNoSpace before the first byte, ErrTorn when a file is not
// what it was in the picture, ErrBadPath, ErrFenced, ErrQuarantined. Nothing stays of a save that failed.
func (s *Store) Put(ctx context.Context, save Save) (*manifest.Manifest, manifest.Hash, error) {
	return s.PutFollowed(ctx, save, (*lent.Chunk).Return)
}

// PutFollowed is Put that lends follow each chunk that was not in the store before, as soon as
// OpenChunk opens it. Several goroutines call follow.
func (s *Store) PutFollowed(
	ctx context.Context, save Save, follow func(*lent.Chunk),
) (*manifest.Manifest, manifest.Hash, error) {
	m, h, err := s.takeIn(ctx, save, follow)
	if err != nil {
		return nil, manifest.Hash{}, errors.Join(err, s.sweep())
	}
	return m, h, nil
}

func (s *Store) takeIn(
	ctx context.Context, save Save, follow func(*lent.Chunk),
) (*manifest.Manifest, manifest.Hash, error) {
	m, err := save.manifest()
	if err != nil {
		return nil, manifest.Hash{}, err
	}
	if err := s.Raise(save.Generation); err != nil {
		return nil, manifest.Hash{}, err
	}
	p := &intake{s: s, save: save, m: m, pins: s.pins(), follow: follow,
		known: map[dirfs.FileState]manifest.Chunks{}}
	defer p.pins.release()
	todo, err := p.reuse()
	if err != nil {
		return nil, manifest.Hash{}, err
	}
	if p.room, err = s.room(todo); err != nil {
		return nil, manifest.Hash{}, err
	}
	defer p.room.release()
	if err := p.copyIn(ctx); err != nil {
		return nil, manifest.Hash{}, fmt.Errorf("put: %w", err)
	}
	if err := m.Check(); err != nil {
		return nil, manifest.Hash{}, fmt.Errorf("%w: %w", manifest.ErrBadManifest, err)
	}
	raw, h := m.Encode()
	if err := s.publish(ctx, save.Generation, encoded{m, raw, h}); err != nil {
		return nil, manifest.Hash{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = p.known
	return m, h, nil
}

// intake is one save on its way into the store.
type intake struct {
	s      *Store
	save   Save
	m      *manifest.Manifest // its chunks are filled in
	pins   *pins
	room   *room
	follow func(*lent.Chunk)
	lent   atomic.Int32                        // to follow, not returned
	known  map[dirfs.FileState]manifest.Chunks // of the files that the next Put need not read
}

// manifest is that of the save, without chunks yet.
func (s Save) manifest() (*manifest.Manifest, error) {
	m := &manifest.Manifest{
		Format: manifest.Format, Job: s.Job, UID: s.UID, Generation: s.Generation, Sequence: s.Sequence,
		WorldSize: s.WorldSize, Part: s.Part, Of: s.Of,
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
func (p *intake) reuse() (todo int64, err error) {
	for i, f := range p.save.Files {
		p.s.mu.Lock()
		chunks, ok := p.s.known[f.State]
		ok = ok && !f.Unsure
		p.s.mu.Unlock()
		for _, h := range chunks {
			p.pins.add(h)
			if ok {
				if ok, err = p.s.ensure(h); err != nil {
					return 0, err
				}
			}
		}
		if ok {
			p.m.Files[i].Chunks = chunks
		} else {
			p.m.Files[i].Chunks = nil
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
func (p *intake) copyIn(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	work, buffers := make(chan piece), make(chan []byte, putBuffers)
	for range putBuffers {
		buffers <- nil // made when needed
	}
	g.Go(func() error {
		defer close(work)
		return p.readFiles(ctx, work, buffers)
	})
	for range putWriters {
		g.Go(func() error {
			for w := range work {
				if err := p.write(w, func() { buffers <- w.data[:0] }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// readFiles hands out the files that are read, and sees that the save did not change meanwhile.
func (p *intake) readFiles(ctx context.Context, work chan<- piece, buffers <-chan []byte) error {
	for i, f := range p.save.Files {
		if p.m.Files[i].Chunks == nil && f.State.Size > 0 {
			chunks := make(manifest.Chunks, manifest.ChunkCount(f.State.Size))
			p.m.Files[i].Chunks = chunks
			reader := pieces{chunks, work, buffers}
			if err := reader.read(ctx, p.save.Dir, f); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		if f.State.Published() || f.State.Mtime < p.save.Time.Add(-racy).UnixNano() {
			p.known[f.State] = p.m.Files[i].Chunks
		}
	}
	return unchanged(p.save)
}

// write hashes a piece and stores it, unless it is there. free takes the memory of the piece back.
func (p *intake) write(w piece, free func()) error {
	h, size := manifest.Hash(sha256.Sum256(w.data)), int64(len(w.data))
	*w.to = h
	p.pins.add(h)
	there, err := p.s.ensure(h)
	if err != nil {
		return err
	}
	if !there {
		if err := p.s.writeChunk(h, w.data); err != nil {
			return err
		}
		p.lend(h, w.data, free)
	} else {
		free()
	}
	p.room.spend(size)
	return nil
}

// lend has a chunk followed, with its bytes unless too many are lent already.
func (p *intake) lend(h manifest.Hash, data []byte, free func()) {
	if p.lent.Add(1) > maxLent {
		p.lent.Add(-1)
		c := &lent.Chunk{Hash: h, Size: int64(len(data))}
		free()
		p.follow(c)
		return
	}
	p.follow(lent.New(h, data, func() {
		p.lent.Add(-1)
		free()
	}))
}

// pieces hands out a file, one chunk after the other, in buffers that come back.
type pieces struct {
	chunks  manifest.Chunks
	work    chan<- piece
	buffers <-chan []byte
}

// read hands out one file: ErrTorn unless it is in the state of the picture before and after.
// Another file may have its name by then.
func (p pieces) read(ctx context.Context, dir dirfs.Reader, f dirfs.Found) error {
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
	for i := range p.chunks {
		var buf []byte
		select {
		case buf = <-p.buffers:
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
		case p.work <- piece{&p.chunks[i], buf[:n]}:
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

// unchanged looks at the files once more: each may be whole and one newer than the others. A save
// of one file is whole all the same when its file was replaced meanwhile.
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
