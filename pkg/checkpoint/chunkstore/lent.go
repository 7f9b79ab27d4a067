package chunkstore

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// maxLent is how many chunks a Put lends with their bytes. It bounds memory: a sender on a slow
// network reads the other chunks from the disk, and the copying goes on.
const maxLent = 2

// Lent is a chunk that a Put wrote. It may still have the bytes in memory, until each reader that
// Open gave is closed and Return was called.
type Lent struct {
	Hash manifest.Hash
	Size int64

	mu       sync.Mutex
	data     []byte // nil: not in memory
	readers  int
	returned bool
	free     func() // takes data back; nil: nothing to take
}

// InMemory reports whether Open would return a reader.
func (l *Lent) InMemory() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data != nil
}

// Open returns a reader of the bytes in memory; nil if they are not there.
func (l *Lent) Open() io.ReadSeekCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == nil {
		return nil
	}
	l.readers++
	return &lentReader{lent: l, bytes: bytes.NewReader(l.data)}
}

// Return gives the bytes back once the readers that are open now are closed. It is called once;
// Open returns nil after the bytes are gone.
func (l *Lent) Return() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returned = true
	l.freeIfUnused()
}

// freeIfUnused gives the bytes back; mu is held.
func (l *Lent) freeIfUnused() {
	if l.returned && l.readers == 0 {
		l.data = nil
		if l.free != nil {
			l.free()
		}
	}
}

// lentReader reads a chunk in memory. The sender may close it in another goroutine than the one
// that reads: nothing is read after Close.
type lentReader struct {
	lent *Lent

	mu    sync.Mutex
	bytes *bytes.Reader // nil: closed
}

func (r *lentReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		return 0, fs.ErrClosed
	}
	return r.bytes.Read(b)
}

func (r *lentReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		return 0, fs.ErrClosed
	}
	return r.bytes.Seek(offset, whence)
}

func (r *lentReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		return fs.ErrClosed
	}
	r.bytes = nil
	r.lent.mu.Lock()
	defer r.lent.mu.Unlock()
	r.lent.readers--
	r.lent.freeIfUnused()
	return nil
}
