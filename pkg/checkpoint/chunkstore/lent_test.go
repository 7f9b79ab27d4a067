package chunkstore

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

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
	kept := make(chan *LentChunk, len(want))
	_, _, err := s.PutFollowed(t.Context(), saveOf(t, from, 1, 1), func(l *LentChunk) {
		followed.Add(1)
		if l.InMemory() {
			inMemory.Add(1)
		}
		kept <- l
	})
	must(t, err)
	if int(followed.Load()) != len(want) || inMemory.Load() != maxLent {
		t.Errorf("%d of %d chunks were followed, %d with their bytes, and not %d",
			followed.Load(), len(want), inMemory.Load(), maxLent)
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
