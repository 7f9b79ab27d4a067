package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Files that were written together are taken when each of them was written again, even if that
// takes long.
func TestSeveralFiles(t *testing.T) {
	z := archive(t, "x")
	for _, dir := range []string{"", "resnet50/", "exp1/ckpt/"} {
		t.Run(dir, func(t *testing.T) {
			b := newBench(t)
			both, entry := dir+"model.pt "+dir+"optimizer.pt", strings.TrimSuffix(dir, "/")
			b.write(dir+"model.pt", z)
			b.want(b.look(200*time.Millisecond), "", "", 0)
			b.write(dir+"optimizer.pt", z[:20])
			b.want(b.look(2*time.Second), "", "", 0)
			b.write(dir+"optimizer.pt", z)
			b.want(b.look(2*time.Second), both, entry, unknown)
			for range 3 {
				b.write(dir+"model.pt", z)
				b.want(b.look(time.Minute), "", "", 0)
				b.write(dir+"optimizer.pt", z)
				b.want(b.look(200*time.Millisecond), both, entry, unknown)
			}
			// Killed between the two.
			b.write(dir+"model.pt", z)
			b.want(b.look(200*time.Millisecond), "", "", 0)
			b.state = Killed
			b.want(b.once(true), "", "", 0)
			if len(b.refused) == 0 ||
				!strings.Contains(b.refused[len(b.refused)-1].Err.Error(), "optimizer.pt") {
				t.Errorf("refused: %v", b.refused)
			}
		})
	}
}

// After two saves and half of a third between two looks, no save is taken.
func TestSavesBetweenTwoLooks(t *testing.T) {
	b := newBench(t)
	save := func(names ...string) {
		for _, n := range names {
			b.write(n, "x")
		}
	}
	save("model.raw", "optimizer.raw")
	b.want(b.look(2*time.Second), "model.raw optimizer.raw", "", unknown)
	save("model.raw", "optimizer.raw", "model.raw", "optimizer.raw", "model.raw")
	b.want(b.look(time.Minute), "", "", 0)
	save("optimizer.raw")
	b.want(b.look(200*time.Millisecond), "model.raw optimizer.raw", "", unknown)
}

// A generation that resumes knows which files belong together, but has seen no save. It takes none
// of two saves that were mixed between two looks.
func TestFirstSaveOfTheNextGeneration(t *testing.T) {
	b := newBench(t, "model.raw", "optimizer.raw")
	b.watch(&manifest.Manifest{Files: []manifest.File{{Path: "model.raw"}, {Path: "optimizer.raw"}},
		Written: []string{"model.raw", "optimizer.raw"}})
	for _, name := range []string{"model.raw", "optimizer.raw", "model.raw"} {
		b.write(name, "x")
	}
	b.want(b.look(time.Minute), "", "", 0)
	b.write("optimizer.raw", "x")
	b.want(b.look(200*time.Millisecond), "model.raw optimizer.raw", "", unknown)
}

// A file that does not change while the others are written more than three times is independent of
// them.
func TestWrittenNowAndThen(t *testing.T) {
	b := newBench(t)
	save := func(names ...string) {
		for _, n := range names {
			b.write(n, "x")
		}
	}
	save("model.raw", "optimizer.raw", "best.raw")
	b.want(b.look(2*time.Second), "best.raw model.raw optimizer.raw", "", unknown)
	for range 3 {
		save("model.raw", "optimizer.raw")
		b.want(b.look(5*time.Second), "", "", 0)
	}
	if len(b.refused) != 1 || b.refused[0].Reason != Unsettled || b.refused[0].Path != "best.raw" {
		t.Errorf("reported: %v", b.refused) // it may fail, and not be written apart
	}
	for range 3 {
		save("model.raw", "optimizer.raw")
		b.want(b.look(200*time.Millisecond), "best.raw model.raw optimizer.raw", "", unknown)
	}
	save("model.raw", "best.raw")
	b.want(b.look(time.Minute), "", "", 0)
	save("optimizer.raw")
	b.want(b.look(200*time.Millisecond), "best.raw model.raw optimizer.raw", "", unknown)
}

// Files that have the step in their names are taken together when all are of one step.
func TestSeveralFilesOfAStep(t *testing.T) {
	for _, name := range []string{"step", "", "run"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			file := func(kind string, n int) string { return fmt.Sprintf("%s_%s%d.raw", kind, name, n) }
			for n := 10; n <= 40; n += 10 {
				b.write(file("model", n), "x")
				if n > 10 {
					b.want(b.look(time.Minute), "", "", 0)
				}
				b.write(file("optim", n), "x")
				step := map[bool]int64{true: int64(n), false: unknown}[name == "step"]
				b.want(b.look(2*time.Second), file("model", n)+" "+file("optim", n), "", step)
			}
			b.write(file("model", 50), "x")
			b.want(b.look(time.Minute), "", "", 0)
		})
	}
}

// Two names with numbers and a pause between them are two saves, or two parts of one. A third one
// shows that each save makes a new name: then two of them between two looks are two saves, too.
func TestNumbersOfSavesOrOfParts(t *testing.T) {
	for _, third := range []bool{false, true} {
		b := newBench(t)
		b.want(b.look(time.Minute), "", "", 0)
		b.write("state.1.raw", "x")
		b.want(b.look(2*time.Second), "", "", 0)
		b.write("state.2.raw", "x")
		b.want(b.look(time.Minute), "", "", 0)
		if third {
			b.write("state.3.raw", "x")
			b.want(b.look(time.Second), "state.3.raw", "state.3.raw", unknown)
			b.write("state.4.raw", "x")
			b.write("state.5.raw", "x")
			b.want(b.look(time.Second), "state.5.raw", "state.5.raw", unknown)
			continue
		}
		b.state = Exited
		b.want(b.once(true), "", "", 0)
		if n := len(b.refused); n == 0 || !strings.Contains(b.refused[n-1].Err.Error(), "numbers") {
			t.Errorf("refused: %v", b.refused)
		}
	}
}

// Ranks are numbered too, and none of them is older than the others.
func TestNumberedShards(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.write("rank_0.raw", "x")
		b.want(b.look(100*time.Millisecond), "", "", 0)
		b.write("rank_1.raw", "y")
		b.want(b.look(3*time.Second), "rank_0.raw rank_1.raw", "", unknown)
	}
	// A number for each save after an unknown word: the older file is not in the newer save.
	b = newBench(t)
	for n := range 3 {
		name := fmt.Sprintf("state.%d.raw", n)
		b.write(name, "x")
		b.want(b.look(3*time.Second), name, name, unknown)
	}
	b.write("state.3.raw", "x")
	b.write("state.4.raw", "x")
	b.want(b.look(3*time.Second), "state.4.raw", "state.4.raw", unknown)
}

// Parts with pauses between them look like saves that count up, until the first of them is written
// again. The last part, which came with the next save, is of the save before, and the next one
// waits for its own.
func TestNumberedPartsWithPauses(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"rank_0.raw", "rank_1.raw"} {
		b.write(name, "1")
		b.want(b.look(3*time.Second), name, name, unknown)
	}
	b.write("rank_2.raw", "1")
	for range 3 {
		b.write("rank_0.raw", "2")
		b.write("rank_1.raw", "2")
		b.want(b.look(time.Minute), "", "", 0)
		b.write("rank_2.raw", "2")
		b.want(b.look(300*time.Millisecond), "rank_0.raw rank_1.raw rank_2.raw", "", unknown)
	}
}

// If one write of a file fails, the file's next content belongs to the next save. It is not taken
// with the content that the other files had before. Files that were ever written at the same time
// have no order.
func TestFileThatFailsAlone(t *testing.T) {
	for _, together := range []bool{false, true} {
		b := newBench(t)
		if together {
			f, err := os.Create(filepath.Join(b.dir, "model.raw"))
			must(t, err)
			b.want(b.look(0), "", "", 0)
			b.write("optimizer.raw", "x")
			must(t, f.Close()) // and opened once more: after three saves more it is known to be opened once
		}
		for range 4 {
			b.write("model.raw", "x")
			b.write("optimizer.raw", "x")
			b.want(b.look(3*time.Second), "model.raw optimizer.raw", "", unknown)
		}
		b.write("optimizer.raw", "x")
		b.want(b.look(time.Minute), "", "", 0)
		b.write("model.raw", "x")
		if together {
			b.want(b.look(time.Second), "model.raw optimizer.raw", "", unknown)
			continue
		}
		b.want(b.look(time.Minute), "", "", 0)
		b.write("optimizer.raw", "x")
		b.want(b.look(time.Second), "model.raw optimizer.raw", "", unknown)
	}
}
