package chunkstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// The memory of a chunk goes back once, when it was returned and the last reader is closed, and no
// reader sees it after that.
func TestLent(t *testing.T) {
	freed := 0
	l := &Lent{Size: 3, data: []byte("abc"), free: func() { freed++ }}
	first, second := l.Open(), l.Open()
	l.Return()
	must(t, first.Close())
	if freed != 0 || !l.InMemory() {
		t.Fatalf("freed %d times while a reader is open", freed)
	}
	if b, err := io.ReadAll(second); string(b) != "abc" || err != nil {
		t.Errorf("read %q: %v", b, err)
	}
	must(t, second.Close())
	if freed != 1 || l.InMemory() || l.Open() != nil {
		t.Errorf("freed %d times, in memory %v", freed, l.InMemory())
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

// A follower that keeps what it is lent, like one that sends to a node that does not answer, does not
// hold up the copying, and the bytes that it was lent stay as they are.
func TestLentAndKept(t *testing.T) {
	from := memfs.New()
	want := map[string][]byte{}
	for i := range 3 * putBuffers {
		data := memfs.Bytes(uint64(i), 100)
		memfs.WriteFile(t, from, fmt.Sprintf("step-1/rank_%d.pt", i), data, 0o600)
		want[string(data)] = data
	}
	s := storeOn(t, memfs.New())
	var inMemory, followed atomic.Int32
	kept := make(chan *Lent, len(want))
	_, _, err := s.PutFollowed(t.Context(), saveOf(t, from, 1, 1), func(l *Lent) {
		followed.Add(1)
		if l.InMemory() {
			inMemory.Add(1)
		}
		kept <- l
	})
	must(t, err)
	if int(followed.Load()) != len(want) || inMemory.Load() != maxLent {
		t.Errorf("%d of %d chunks were followed, %d with their bytes, and not %d", followed.Load(), len(want),
			inMemory.Load(), maxLent)
	}
	for close(kept); len(kept) > 0; {
		l := <-kept
		if r := l.Open(); r != nil {
			b, err := io.ReadAll(r)
			if must(t, err); !bytes.Equal(want[string(b)], b) {
				t.Errorf("%d bytes that were lent became others", len(b))
			}
		}
	}
}
