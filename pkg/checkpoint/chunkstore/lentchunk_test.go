package chunkstore

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// The memory of a chunk goes back once, when it was returned and the last reader is closed, and no
// reader sees it after that.
func TestLent(t *testing.T) {
	freed := 0
	c := NewLentChunk(manifest.Hash{}, []byte("abc"), func() { freed++ })
	first, second := c.Open(), c.Open()
	c.Return()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if freed != 0 || !c.InMemory() {
		t.Fatalf("freed %d times while a reader is open", freed)
	}
	if b, err := io.ReadAll(second); string(b) != "abc" || err != nil {
		t.Errorf("read %q: %v", b, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if freed != 1 || c.InMemory() || c.Open() != nil {
		t.Errorf("freed %d times, in memory %v", freed, c.InMemory())
	}
	_, readErr := second.Read(make([]byte, 1))
	_, seekErr := second.Seek(0, io.SeekStart)
	for _, err := range []error{readErr, seekErr, second.Close()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}
