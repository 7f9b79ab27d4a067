package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// atRest looks until nothing is to be waited for, and what happens next causes a notice. The directory
// of a test is on a local disk.
func (b *bench) atRest() {
	b.t.Helper()
	for b.look(2*busyFor) != nil {
	}
	if got := b.c.Rest(); got != pauseMax {
		b.t.Fatalf("rests for %v", got)
	}
}

// noticed waits for the notice of what do does.
func (b *bench) noticed(do func()) {
	b.t.Helper()
	b.atRest()
	notice := b.c.Notice()
	for len(notice) > 0 { // of what was before this look
		<-notice
	}
	b.c.Notice()
	do()
	if _, ok := <-notice; !ok {
		b.t.Fatal("the notices ended")
	}
}

// Each change that a look would see causes a notice: at the top, below, and in directories that were
// made or replaced since.
func TestEachChangeCausesANotice(t *testing.T) {
	b := newBench(t, "model/a.raw", "step-1/m.raw")
	in := func(name string) string { return filepath.Join(b.dir, name) }
	b.noticed(func() { b.write("model.raw", "new") })
	b.noticed(func() { b.write("model.raw", "in place") })
	b.noticed(func() { b.write("model/a.raw", "below") })
	b.noticed(func() { must(t, os.Mkdir(in("step-2"), 0o755)) })
	b.noticed(func() { b.write("step-2/m.raw", "in a directory that was empty") })
	b.noticed(func() { must(t, os.Rename(in("step-2"), in("step-3"))) })
	b.noticed(func() { must(t, os.Remove(in("model.raw"))) })
	b.noticed(func() { must(t, os.Chtimes(in("model/a.raw"), time.Time{}, time.Unix(1, 0))) })
	b.noticed(func() { must(t, os.RemoveAll(b.dir)); must(t, os.Mkdir(b.dir, 0o755)) })
	b.noticed(func() { b.write("last.ckpt", archive(b.t, "in the directory that took its place")) })
	b.want(b.look(time.Second), "last.ckpt", "last.ckpt", unknown)
}

// A watcher that no notices reach looks by the clock.
func TestDeafLooksByTheClock(t *testing.T) {
	b := newBench(t, "model/a.raw")
	b.atRest()
	must(t, b.c.notices.Close())
	b.c.notices = nil
	b.once(false)
	if b.c.Rest() != b.c.Pause() || b.c.Notice() != nil {
		t.Errorf("rests for %v, pause %v", b.c.Rest(), b.c.Pause())
	}
}
