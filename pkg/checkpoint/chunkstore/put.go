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

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrTorn means that a save changed while it was read, or is incomplete.
var ErrTorn = errors.New("torn save")

// Save is a picture of a checkpoint directory that is still to be copied: files with their states.
// Put fails if a state changes.
type Save struct {
	manifest.Stamp
	Sequence      uint64 // among the saves of this generation
	Entry         string
	Step, Samples *int64
	Cursor        *manifest.Cursor
	Time          time.Time
	Directories   []string // see manifest.Manifest

	Files []dirfs.Found // by path, ascending
	Dir   dirfs.Reader
}

// Bytes returns the total size of the files.
func (s Save) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.State.Size
	}
	return n
}

// maxLent is how many chunks Put lends with their bytes at a time. It limits the memory. A slow
// sender reads further chunks from the disk, and does not delay Put.
const maxLent = 2

const (
	putWriters = 3 // concurrent goroutines that hash, write and sync
	// putBuffers is how many chunks of a save are in memory: one being read, one per writer, and
	// the lent ones.
	putBuffers = putWriters + 1 + maxLent
	racy       = time.Second // a file modified later than this before its read may change unnoticed
)

// Put copies a save into the store, durably. It returns its manifest with the hash. Errors:
// ErrNoSpace before the first byte is written, ErrTorn if a file differs from the picture,
// ErrBadPath, ErrFenced, ErrQuarantined. After an error nothing of the save stays.
func (s *Store) Put(ctx context.Context, save Save) (*manifest.Manifest, manifest.Hash, error) {
	return s.PutFollowed(ctx, save, (*LentChunk).Return)
}

// PutFollowed is Put that calls follow with each new chunk, as soon as OpenChunk can open it.
// follow is called by several goroutines.
func (s *Store) PutFollowed(
	ctx context.Context, save Save, follow func(*LentChunk),
) (m *manifest.Manifest, h manifest.Hash, err error) {
	defer func() {
		if err != nil {
			m, h, err = nil, manifest.Hash{}, errors.Join(err, s.sweep())
		}
	}()
	m, err = save.manifest()
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

// intake is one save that is being put.
type intake struct {
	s      *Store
	save   Save
	m      *manifest.Manifest // chunks are filled in during Put
	pins   *pins
	room   *room
	follow func(*LentChunk)
	lent   atomic.Int32                        // chunks that follow has not returned
	known  map[dirfs.FileState]manifest.Chunks // of files that the next Put can reuse
}

// manifest returns the manifest of the save without chunks.
func (s Save) manifest() (*manifest.Manifest, error) {
	m := &manifest.Manifest{
		Format: manifest.Format, Job: s.Job, UID: s.UID, Generation: s.Generation, Sequence: s.Sequence,
		WorldSize: s.WorldSize, Part: s.Part, Of: s.Of,
		Entry: s.Entry, Directories: s.Directories,
		Step: s.Step, Samples: s.Samples, Cursor: s.Cursor,
		Time: s.Time.UTC().Truncate(time.Millisecond),
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

// reuse fills in the chunks of files that have not changed since the last Put. It returns the bytes
// of the other files.
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

// piece is one chunk of a file in memory.
type piece struct {
	to   *manifest.Hash // receives the hash
	data []byte
}

// copyIn fills in the chunks of all other files. One goroutine reads; several hash and write.
func (p *intake) copyIn(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	work, buffers := make(chan piece), make(chan []byte, putBuffers)
	for range putBuffers {
		buffers <- nil // allocated at first use
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

// readFiles reads the changed files, and checks that the save did not change meanwhile.
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
	return checkStates(p.save)
}

// write hashes a piece and stores it, unless it is in the store. free returns the memory of the
// piece.
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

// lend calls follow with a chunk, with its bytes unless too many are lent already.
func (p *intake) lend(h manifest.Hash, data []byte, free func()) {
	if p.lent.Add(1) > maxLent {
		p.lent.Add(-1)
		c := &LentChunk{Hash: h, Size: int64(len(data))}
		free()
		p.follow(c)
		return
	}
	p.follow(NewLentChunk(h, data, func() {
		p.lent.Add(-1)
		free()
	}))
}

// pieces reads a file, one chunk after the other, into buffers that are reused.
type pieces struct {
	chunks  manifest.Chunks
	work    chan<- piece
	buffers <-chan []byte
}

// read reads one file. It fails with ErrTorn unless the open file has the state of the picture
// before and after. Its name may belong to another file by then.
func (p pieces) read(ctx context.Context, dir dirfs.Reader, f dirfs.Found) error {
	in, err := dir.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if err := checkState(in.Stat, f); err != nil {
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
	return checkState(in.Stat, f)
}

func checkState(stat func() (fs.FileInfo, error), f dirfs.Found) error {
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

// checkStates checks the states of all files again: each file may be whole, and one of them newer than
// the others. A save of one file stays valid if its file was replaced meanwhile.
func checkStates(save Save) error {
	if len(save.Files) == 1 {
		return nil
	}
	for _, f := range save.Files {
		if err := checkState(func() (fs.FileInfo, error) { return save.Dir.Lstat(f.Path) }, f); err != nil {
			return err
		}
	}
	return nil
}
