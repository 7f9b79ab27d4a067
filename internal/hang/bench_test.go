package hang

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// workersOnDisk read the newest line of each progress file, as the workers of an agent do.
type workersOnDisk struct {
	still
	dirs []string
}

func (w workersOnDisk) Progress() (lines []string) {
	for _, dir := range w.dirs {
		lines = append(lines, Progress(dir))
	}
	return lines
}

// BenchmarkSlowRank is one look for a slow rank, of two nodes with eight workers each: what a look costs
// the first node, and the second with it. It comes once in half a minute.
func BenchmarkSlowRank(b *testing.B) {
	workers := workersOnDisk{}
	for range 8 {
		dir := b.TempDir()
		lines := strings.Repeat(`{"step": 1, "samples": 32, "first": 1795800000.0}`+"\n", 1000) + pace(50) + "\n"
		if err := os.WriteFile(filepath.Join(dir, "progress.jsonl"), []byte(lines), 0o600); err != nil {
			b.Fatal(err)
		}
		workers.dirs = append(workers.dirs, dir)
	}
	l := newLab(b, &group{node: "a"}, &group{node: "b"})
	for _, w := range l.nodes {
		w.Workers, w.Slots = workers, 8
	}
	for b.Loop() {
		if s := l.nodes["a"].slow(b.Context()); s != nil {
			b.Fatalf("%+v", s)
		}
	}
}
