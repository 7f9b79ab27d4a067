package capture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// A file that lies too deep is never left out of a save: the save is refused. Such a file of before the job
// hinders nothing, and neither do empty directories.
func TestFilesThatLieTooDeep(t *testing.T) {
	for _, below := range []string{"step-1", "other"} {
		for _, depth := range []int{manifest.MaxDepth - 2, manifest.MaxDepth, manifest.MaxDepth + 5} {
			b := newBench(t)
			deep := ".next" + strings.Repeat("/d", depth-1)
			if err := os.MkdirAll(filepath.Join(b.dir, deep), 0o700); err != nil {
				t.Fatal(err)
			}
			b.write(".next/top.raw", "1")
			b.write(deep+"/f.raw", "1")
			b.rename(".next", below)
			p, _, err := b.c.Look(b.now)
			fits := depth < manifest.MaxDepth
			if p != nil && !strings.Contains(paths(p), "f.raw") {
				t.Errorf("%s, depth %d: taken without a file: %s", below, depth, paths(p))
			}
			if got := errors.Is(err, manifest.ErrBadPath); got == fits {
				t.Errorf("%s, depth %d: %v", below, depth, err)
			}
		}
	}
}

func TestFilesOfBeforeTheJobThatLieTooDeep(t *testing.T) {
	folders := strings.Repeat("d/", manifest.MaxDepth+5)
	deep := "data/" + folders + "f.raw"
	b := newBench(t, deep, "step-1/"+deep)
	if err := os.MkdirAll(filepath.Join(b.dir, "step-2", folders), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(".next/top.raw", "1")
	b.rename(".next", "step-3")
	b.want(b.look(0), "step-3/top.raw", "step-3", 3)
}
