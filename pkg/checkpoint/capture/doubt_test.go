package capture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// A save that is not known to be complete is reported within ten seconds, with the file, and once a
// minute.
func TestUnsettledSaveIsReported(t *testing.T) {
	b := newBench(t)
	b.write("step-1/model.raw", "x")
	b.want(b.look(10*time.Second), "", "", 0)
	if len(b.refused) != 1 {
		t.Fatalf("refused: %v", b.refused)
	}
	r := b.refused[0]
	if !errors.Is(r.Err, ErrUnsettled) || r.Path != "step-1" ||
		!strings.Contains(r.Err.Error(), ".elastic-commit") {
		t.Errorf("reported: %+v", r)
	}
	b.want(b.look(5*time.Minute), "", "", 0)
	if n := len(b.refused); n < 5 || n > 6 {
		t.Errorf("reported %d times in five minutes", n)
	}
	b.write("step-2/model.raw", "x")
	b.want(b.look(time.Second), "step-1/model.raw", "step-1", 1)
}

// A file that stays open and is written over again and again is reported as well; one that grows is not:
// it is a save of many bytes.
func TestFileThatStaysOpenIsReported(t *testing.T) {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now(), own: true}
	b.watch(nil)
	f, err := os.Create(filepath.Join(b.dir, "weights.raw"))
	must(t, err)
	defer f.Close()
	for n := range int64(30) {
		_, err := f.WriteAt([]byte{byte(n), 0}, n)
		must(t, err)
		b.want(b.look(600*time.Millisecond), "", "", 0)
	}
	if len(b.refused) != 0 {
		t.Fatalf("reported while it grew: %v", b.refused)
	}
	for n := range 30 {
		_, err := f.WriteAt([]byte{byte(n), 1}, 0)
		must(t, err)
		b.want(b.look(600*time.Millisecond), "", "", 0)
	}
	if len(b.refused) != 1 || b.refused[0].Path != "weights.raw" ||
		!strings.Contains(b.refused[0].Err.Error(), "open for writing") {
		t.Errorf("reported: %v", b.refused)
	}
}

// A file that one save after the other is taken without is reported: it comes before the others, and
// nothing shows that it is not of the save before.
func TestFileThatIsLeftOutIsReported(t *testing.T) {
	b := newBench(t)
	for range 2 {
		b.write("model.raw", "x")
		b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
	}
	for range 2 {
		b.now = b.now.Add(time.Minute)
		b.write("average.raw", "x")
		b.want(b.look(300*time.Millisecond), "", "", 0)
		b.write("model.raw", "x")
		b.want(b.look(300*time.Millisecond), "model.raw", "model.raw", unknown)
	}
	if len(b.refused) != 1 || b.refused[0].Path != "average.raw" ||
		!strings.Contains(b.refused[0].Err.Error(), "without it") {
		t.Errorf("reported: %v", b.refused)
	}
}

// What the agent itself keeps below the checkpoint directory is no save.
func TestExcludedDirectories(t *testing.T) {
	b := newBench(t)
	state, logs := filepath.Join(b.dir, "state", "host"), filepath.Join(b.dir, "out")
	for _, d := range []string{state, logs} {
		must(t, os.MkdirAll(d, 0o700))
	}
	c, err := Watch(Dir{Path: b.dir, Exclude: []string{state, logs}},
		manifest.Stamp{Job: "x", UID: "u1", Generation: 1, WorldSize: 2},
		Workers{State: func() WorkerState { return b.state }}, nil)
	must(t, err)
	defer c.Close()
	b.c = c
	b.write("state/host/chunks/model.pt", "x")
	b.write("out/worker.txt", "x")
	b.want(b.look(time.Minute), "", "", 0)
	b.write("model.raw", "x")
	b.want(b.look(8*time.Second), "model.raw", "model.raw", unknown)
}
