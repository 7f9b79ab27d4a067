// Package lent lends the bytes of a chunk, which are in memory, to several readers.
package lent

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Chunk is one that was written. It may still have the bytes in memory, until each reader that
// Open gave is closed and Return was called.
type Chunk struct {
	Hash manifest.Hash
	Size int64

	mu       sync.Mutex
	data     []byte // nil: not in memory
	readers  int
	returned bool
	free     func() // takes data back; nil: nothing to take
}

// New is a chunk with its bytes. free takes these back.
func New(h manifest.Hash, data []byte, free func()) *Chunk {
	return &Chunk{Hash: h, Size: int64(len(data)), data: data, free: free}
}

// InMemory reports whether Open would return a reader.
func (c *Chunk) InMemory() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data != nil
}

// Open returns a reader of the bytes in memory; nil if they are not there.
func (c *Chunk) Open() io.ReadSeekCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data == nil {
		return nil
	}
	c.readers++
	return &reader{lent: c, bytes: bytes.NewReader(c.data)}
}

// Return gives the bytes back once the readers that are open now are closed. It is called once;
// Open returns nil after the bytes are gone.
func (c *Chunk) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
	c.freeIfUnused()
}

// freeIfUnused gives the bytes back; mu is held.
func (c *Chunk) freeIfUnused() {
	if c.returned && c.readers == 0 {
		c.data = nil
		if c.free != nil {
			c.free()
		}
	}
}

// reader reads a chunk in memory. The sender may close it in another goroutine than the one
// that reads: nothing is read after Close.
type reader struct {
	lent *Chunk

	mu    sync.Mutex
	bytes *bytes.Reader // nil: closed
}

func (r *reader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		return 0, fs.ErrClosed
	}
	return r.bytes.Read(b)
}

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		return 0, fs.ErrClosed
	}
	return r.bytes.Seek(offset, whence)
}

func (r *reader) Close() error {
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
