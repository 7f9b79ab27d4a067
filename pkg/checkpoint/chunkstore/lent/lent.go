// Package lent shares the bytes of a chunk in memory with several readers.
package lent

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Chunk is a chunk that was written. Its bytes may stay in memory until Return was called and all
// readers are closed.
type Chunk struct {
	Hash manifest.Hash
	Size int64

	mu       sync.Mutex
	data     []byte // nil: not in memory
	readers  int
	returned bool
	free     func() // is called when the bytes are no longer needed; nil: not called
}

// New returns a chunk with its bytes. free is called when they are no longer needed.
func New(h manifest.Hash, data []byte, free func()) *Chunk {
	return &Chunk{Hash: h, Size: int64(len(data)), data: data, free: free}
}

// InMemory reports whether Open returns a reader.
func (c *Chunk) InMemory() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data != nil
}

// Open returns a reader of the bytes in memory, or nil if they are gone.
func (c *Chunk) Open() io.ReadSeekCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data == nil {
		return nil
	}
	c.readers++
	return &reader{lent: c, bytes: bytes.NewReader(c.data)}
}

// Return ends the loan once the open readers are closed. It must be called once. Open returns nil
// when the bytes are gone.
func (c *Chunk) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
	c.freeIfUnused()
}

// freeIfUnused calls free if no reader needs the bytes. mu is held.
func (c *Chunk) freeIfUnused() {
	if c.returned && c.readers == 0 {
		c.data = nil
		if c.free != nil {
			c.free()
		}
	}
}

// reader reads a chunk in memory. Another goroutine than the reading one may call Close. Nothing is
// read after Close.
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
