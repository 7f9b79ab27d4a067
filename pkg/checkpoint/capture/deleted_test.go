package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A script deletes an old step file by file. A look in between sees a directory that changed, and no save.
func TestOldStepThatIsBeingDeleted(t *testing.T) {
	b := newBench(t)
	for n := 1; n < 8; n++ {
		if old := filepath.Join(b.dir, fmt.Sprint("step-", n-2)); n > 2 {
			must(t, os.Remove(filepath.Join(old, "model.raw")))
			b.want(b.look(300*time.Millisecond), "", "", 0)
			must(t, os.RemoveAll(old))
		}
		b.write("tmp/model.raw", "x")
		b.write("tmp/optimizer.raw", "y")
		entry := fmt.Sprint("step-", n)
		b.rename("tmp", entry)
		b.want(b.look(300*time.Millisecond), entry+"/model.raw "+entry+"/optimizer.raw", entry, int64(n))
	}
	must(t, os.Remove(filepath.Join(b.dir, "step-7/model.raw"))) // the last one as well
	b.want(b.look(time.Minute), "", "", 0)
}

// A step is written again after it was taken: its number still counts steps.
func TestStepThatIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	for n := 1; n < 8; n++ {
		entry := fmt.Sprintf("model_step%d.raw", n)
		b.write(entry, "x")
		b.want(b.look(2*time.Second), entry, entry, int64(n))
		b.write(entry, "with a header")
		b.want(b.look(2*time.Second), entry, entry, int64(n))
		if n > 1 {
			must(t, os.Remove(filepath.Join(b.dir, fmt.Sprintf("model_step%d.raw", n-1))))
		}
	}
}

// What is being deleted is not part of the next save either.
func TestNextSaveLeavesOutWhatIsBeingDeleted(t *testing.T) {
	b := newBench(t)
	b.write("best/model.raw", "x")
	b.write("best/optimizer.raw", "y")
	b.write("best/"+markFile, "{}")
	b.want(b.look(2*time.Second), "best/.elastic-commit best/model.raw best/optimizer.raw", "best", unknown)
	must(t, os.Remove(filepath.Join(b.dir, "best/model.raw")))
	b.want(b.look(2*time.Second), "", "", 0)
	b.write("step-2/model.raw", "x")
	b.write("step-2/"+markFile, `{"step": 2}`)
	b.want(b.look(2*time.Second), "step-2/.elastic-commit step-2/model.raw", "step-2", 2)
}

// An evaluation writes its result into the directory of an older step. That step is not the newest again.
func TestOldStepThatGetsAFile(t *testing.T) {
	b := newBench(t)
	save := func(n int) {
		b.write("tmp/model.raw", "x")
		b.write("tmp/optimizer.raw", "y")
		entry := fmt.Sprint("step-", n)
		b.rename("tmp", entry)
		b.want(b.look(300*time.Millisecond), entry+"/model.raw "+entry+"/optimizer.raw", entry, int64(n))
	}
	save(1)
	for n := 2; n < 8; n++ {
		save(n)
		for range 2 {
			b.write(fmt.Sprintf("step-%d/eval.raw", n-1), "z")
			b.want(b.look(2*time.Second), "", "", 0)
		}
	}
	b.write("step-3/model.raw", "x") // the script went back, and saves that step again
	b.want(b.look(2*time.Second), "", "", 0)
	b.write("step-3/optimizer.raw", "y")
	b.write("step-3/eval.raw", "z")
	b.want(b.look(2*time.Second), "step-3/eval.raw step-3/model.raw step-3/optimizer.raw", "step-3", 3)
}
