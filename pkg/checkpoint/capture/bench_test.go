package capture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// One look while nothing happens: it is made five times a second at most.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 20 {
		must(b, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("checkpoint-%d", i)), 0o700))
		for k := range 10 {
			must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("checkpoint-%d/%d.bin", i, k)),
				bytes.Repeat([]byte{1}, 100), 0o600))
		}
	}
	must(b, os.WriteFile(filepath.Join(dir, "best.pt"), []byte("x"), 0o600))
	c, err := Watch(Dir{Path: dir}, manifest.Stamp{}, Workers{State: func() WorkerState { return Running }},
		nil)
	must(b, err)
	defer c.Close()
	for b.Loop() {
		if _, _, err := c.Look(time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
