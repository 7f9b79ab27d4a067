package chunkstore

// This file shares the bytes of a chunk in memory with several readers.

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// LentChunk is a chunk that was written. Its bytes may stay in memory until Return was called and all
// readers are closed.
type LentChunk struct {
	Hash manifest.Hash
	Size int64

	mu       sync.Mutex
	data     []byte // nil: not in memory
	readers  int
	returned bool
	free     func() // is called when the bytes are no longer needed; nil: not called
}

// NewLentChunk returns a chunk with its bytes. free is called when they are no longer needed.
func NewLentChunk(h manifest.Hash, data []byte, free func()) *LentChunk {
	return &LentChunk{Hash: h, Size: int64(len(data)), data: data, free: free}
}

// InMemory reports whether Open returns a reader.
func (c *LentChunk) InMemory() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data != nil
}

// Open returns a reader of the bytes in memory, or nil if they are gone.
func (c *LentChunk) Open() io.ReadSeekCloser {
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
func (c *LentChunk) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
	c.freeIfUnused()
}

// freeIfUnused calls free if no reader needs the bytes. mu is held.
func (c *LentChunk) freeIfUnused() {
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
	lent *LentChunk

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
