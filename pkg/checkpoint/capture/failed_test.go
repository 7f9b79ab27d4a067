package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file that is closed when its worker fails may be incomplete: a write failed, and the exception
// closed the file. It is taken if it was closed at an earlier look, or was renamed.
func TestWorkerThatFails(t *testing.T) {
	for _, c := range []struct {
		name string
		save func(b *bench, step string)
		want bool
	}{
		{"in the middle of a file", func(b *bench, step string) {
			f, err := os.Create(filepath.Join(b.dir, "model.raw"))
			must(b.t, err)
			_, err = f.WriteString(step)
			must(b.t, err)
			b.want(b.look(time.Second), "", "", 0)
			must(b.t, f.Close())
		}, false},
		{"in the middle of a file, between two looks",
			func(b *bench, step string) { b.write("model.raw", step) }, false},
		{"after a file was renamed", func(b *bench, step string) {
			b.write("model.raw.tmp", step)
			b.rename("model.raw.tmp", "model.raw")
		}, true},
		{"after a file was seen closed", func(b *bench, step string) {
			b.write("model.raw", step)
			b.now = time.Now() // the file is too young to be taken
			b.want(b.look(0), "", "", 0)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{t: t, dir: t.TempDir(), now: time.Now(), own: true}
			b.watch(nil)
			b.write("model.raw", "1")
			b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
			c.save(b, "2")
			b.state = Failed
			p := b.once(true)
			if (p != nil) != c.want {
				t.Errorf("taken: %q, want %t; refused: %v", paths(p), c.want, b.refused)
			}
		})
	}
}

// There is no save before the first one. If its worker fails, a single file is a complete save if
// it was renamed, but not if it was only closed just before the failure: an exception closes an archive
// so that it is whole by its format.
func TestWorkerThatFailsInItsFirstSave(t *testing.T) {
	for name, data := range map[string]string{"model.raw": "1", "model.pt": archive(t, "1")} {
		for _, renamed := range []bool{false, true} {
			b := &bench{t: t, dir: t.TempDir(), now: time.Now(), own: true}
			b.watch(nil)
			want := ""
			if renamed {
				b.write(name+".tmp", data)
				b.rename(name+".tmp", name)
				want = name
			} else {
				b.write(name, data)
			}
			b.want(b.look(300*time.Millisecond), "", "", 0)
			b.state = Failed
			b.want(b.once(true), want, name, unknown)
		}
	}
}

// A worker is killed, or fails, after it opened b.raw for the next save and before it wrote to it. The
// close by the kernel is no pass of b.raw, and not its last one. So a.raw, which was written once more,
// is not taken with it. The same holds while the agent cannot see the open files of the worker, and does
// not know yet that it ended.
func TestFileThatWasOpenWhenItsWorkerEnded(t *testing.T) {
	for how, state := range map[string]WorkerState{"killed": Killed, "failed": Failed, "not known": Running} {
		t.Run(how, func(t *testing.T) {
			r := newRace(t)
			r.write("a.raw", "b.raw")
			r.takes()
			r.write("a.raw", "b.raw", "a.raw")
			r.takesNone()
			r.do("open", "b.raw")
			r.disk.kill()
			r.state = state
			r.takesNone()
		})
	}
}
