package capture

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// The next generation does not find files that an ended generation left after its
// last commit. Files that were there before its workers stay.
func TestSetAside(t *testing.T) {
	z := archive(t, "x")
	b := newBench(t)
	s := checkpointtest.OpenStore(t, memfs.New())
	b.write("step-9000/model.raw", "of another job")
	b.write("torn-before.pt", z[:30])
	must(t, Scratch(s, Dir{Path: b.dir}))
	must(t, RecordFingerprints(s, Dir{Path: b.dir}))

	b.watch(nil)
	b.write("tmp/model.raw", "committed")
	b.rename("tmp", "step-20")
	save := b.look(0)
	_, h, err := s.Put(t.Context(), save.Save)
	must(t, err)
	must(t, save.RecordFingerprints(s))
	b.write("step-30/model.raw", "never committed")
	b.write("step-10/model.raw", "older, and skipped")
	b.write("half.pt", z[:30])
	b.write("whole.pt", z)
	b.write("metrics.csv", "1,2,3")
	b.write("model.raw", "unknown")

	top := func() (names []string) {
		for _, f := range checkpointtest.SaveOf(t, b.tree(), 1, 1).Files {
			if n := manifest.TopOf(f.Path); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return names
	}
	checkpointtest.Restore(t, s, h, b.dir)
	m, err := s.Manifest(h)
	must(t, err)
	must(t, SetAside(s, b.tree(), Dir{Path: b.dir}, m))
	want := []string{asideDir, "step-20", "step-9000", "torn-before.pt"}
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("after restore: %v, want %v", got, want)
	}

	b.rename(".elastic-uncommitted/step-30", "step-30")
	later := b.look(0)
	_, _, err = s.Put(t.Context(), later.Save)
	must(t, err)
	must(t, later.RecordFingerprints(s))
	must(t, SetAside(s, b.tree(), Dir{Path: b.dir}, m))
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("back to an older checkpoint: %v, want %v", got, want)
	}
	b.rename(".elastic-uncommitted/step-30", "step-25")
	must(t, RecordFingerprints(s, Dir{Path: b.dir})) // of a checkpoint that retention dropped
	must(t, SetAside(s, b.tree(), Dir{Path: b.dir}, m))
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("back to an older checkpoint, and the later one is gone: %v, want %v", got, want)
	}

	b.write("again.pt", z[:30])
	must(t, Scratch(s, Dir{Path: b.dir}))
	want = []string{asideDir, "step-9000", "torn-before.pt"}
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("from scratch: %v, want %v", got, want)
	}
}
