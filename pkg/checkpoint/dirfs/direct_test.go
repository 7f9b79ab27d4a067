package dirfs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// A file that is written past the page cache has the bytes that were written, whatever their length,
// and also when they lie in memory from which no disk takes them.
func TestFillDirect(t *testing.T) {
	const piece = 1 << 20
	bytesOf := make([]byte, 5*piece)
	rand.NewChaCha8([32]byte{}).Read(bytesOf)
	for _, length := range []int{0, 1, 4095, 4096, piece - 1, piece, piece + 1, 2*piece + 4096, 4 * piece} {
		for _, from := range []int{0, 1, 512} {
			t.Run(fmt.Sprintf("%d bytes from %d", length, from), func(t *testing.T) {
				dir := t.TempDir()
				tree, err := dirfs.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer tree.Close()
				disk, want := dirfs.NewDisk(tree, "temp"), bytesOf[from:from+length]
				f, err := disk.FillDirect("chunk", 0o600, disk.From(bytes.NewReader(want)))
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(filepath.Join(dir, "chunk")); err != nil ||
					!bytes.Equal(got, want) {
					t.Errorf("read %d bytes, as they were written: %v: %v", len(got), bytes.Equal(got, want), err)
				}
			})
		}
	}
}
