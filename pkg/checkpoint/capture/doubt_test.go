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

// A save that is not known to be complete is told within ten seconds, with the file, and once a
// minute.
func TestUnsettledSaveIsTold(t *testing.T) {
	b := newBench(t)
	b.write("step-1/model.raw", "x")
	b.want(b.look(10*time.Second), "", "", 0)
	if len(b.refused) != 1 {
		t.Fatalf("refused: %v", b.refused)
	}
	r := b.refused[0]
	if !errors.Is(r.Err, ErrUnsettled) || r.Path != "step-1" || !strings.Contains(r.Err.Error(), ".elastic-commit") {
		t.Errorf("told: %+v", r)
	}
	b.want(b.look(5*time.Minute), "", "", 0)
	if n := len(b.refused); n < 5 || n > 6 {
		t.Errorf("told %d times in five minutes", n)
	}
	b.write("step-2/model.raw", "x")
	b.want(b.look(time.Second), "step-1/model.raw", "step-1", 1)
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
	b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
}
